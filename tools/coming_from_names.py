#!/usr/bin/env python3
"""Makes tests/coming_from_names.txt: the names that people of other trainers know, one a line, behind their source.

The names are facts that are read from what the sources publish: pages of documentation, dataclasses, schemas. Sentences
are not. Made once, and made again when a source is to be followed to a newer version:

  tools/coming_from_names.py --documents FOLDER --peers FILE --packages FOLDER... --axolotl FOLDER --litgpt FOLDER

writes the list to standard output.

documents: the five pages on easydel.trainers.trainer_protocol, easydel.infra.base_state, easydel.infra.mixins.protocol,
           xlstm_jax.trainer.base.trainer and ml.trainers.base, as text files
peers:     the page that lists their arguments (Markdown)
packages:  folders in which the packages transformers and trl lie; several versions are put together
axolotl:   its folder src/axolotl/utils/schemas      litgpt: its folder litgpt
"""

import argparse
import ast
import re
from pathlib import Path

# What documents and page say in running text: values, keys, files, errors.
BY_HAND = {
    "easydel.trainer": """
        apply_training_hooks: EasyDeLBreakRequest; apply_training_hooks: EasyDeLTimerError
        BaseTrainerProtocol: AssertionError; BaseTrainerProtocol: ValueError 1; BaseTrainerProtocol: ValueError 2
        configure_dataloaders: ValueError; create_progress_bar: NotImplementedError; create_progress_bar: tqdm
        create_progress_bar: rich; create_progress_bar: json; create_progress_bar: NullProgressBar
        log_metrics(mode): train; log_metrics(mode): eval; gradient_accumulation_steps: ValueError
        EasyDeL runtime: RuntimeError; KeyboardInterrupt; run-<step>/; metadata.json; README.md
        easydel-training-arguments.json; SAVING_SKIPPED; train/epoch; train/execution_time; train/learning_rate
        train/loss; train/perplexity; train/train_step; train/train_step_time; train/tflops; train/visited_tokens
        train/z_loss; train/mean_loss; train/mean_accuracy; train/accuracy; train/chosen_rewards
        train/rejected_rewards; train/train/max_grad_norm; train/train/mean_grad_norm; train/grad_norm/<path>
        train-mlperf/flops; train-mlperf/flops_per_token; train-mlperf/extra_flops
        train-mlperf/extra_flops_per_token; train-mlperf/step_time; train-mlperf/tflops; train-mlperf/throughput
        train-mlperf/total_flops; train-mlperf/total_time; train-mlperf/total_tokens; train-mlperf/execution_time
        eval/loss; eval/mean_loss; eval/perplexity; eval/accuracy; weights-histogram/<path>
        weights-information/<path>/mean; weights-information/<path>/std; weights-information/<path>/min
        weights-information/<path>/max; Number of Model Parameters (Billion)""",
    "easydel.arguments": """
        max_sequence_length; model_name=None; use_grain=True; step_partition_spec; wandb_entity=None
        wandb_name=None; per_epoch_training_steps=None; per_epoch_evaluation_steps=None; generation_interval=None
        generation_prompts=[]; generation_num_prompts=1; generation_use_train_prompts=False
        generation_dataset_prompt_field=prompt; generation_top_p=None; generation_top_k=None
        generation_temperature=None; generation_do_sample=None; generation_num_return_sequences=None
        generation_max_new_tokens=None; generation_seed; generation_preview_print=False; optimizer: adafactor
        optimizer: adamw; optimizer: mars; optimizer: muon; optimizer: rmsprop; optimizer: lion; optimizer: skew
        optimizer: quad; scheduler: none; scheduler: linear; scheduler: cosine; scheduler: ValueError
        quantization_mode: fp8; quantization_mode: int8; quantization_mode: nf4; truncation_mode: keep_end
        truncation_mode: keep_start; pruning_module; CheckpointInterval(every); CheckpointInterval(until)
        learning_rate: TypeError; backend: ValueError; training_time_limit: ValueError; load_arguments""",
    "easydel.state": """
        easydel-model.parameters; easydel-model.parameters.safetensors.index.json; config.json
        generation_config.json; easydel-optstate.parameters; easydel-optstate.structure; sharding_axis_names: dp
        sharding_axis_names: fsdp; sharding_axis_names: tp; sharding_axis_names: sp; device: cpu; device: gpu
        device: tpu; quantization_method: NONE; quantization_method: NF4; quantization_method: A8BIT
        quantization_method: AQT; quantization_method: GPTQ; shard_model: ValueError 1; shard_model: ValueError 2
        gather_optimizer_state: AssertionError""",
    "easydel.module": """
        compute_loss: AssertionError; apply_lora_to_layers: ValueError; merge_lora_params: KeyError
        merge_params_dict: KeyError; generate: ValueError; generate: NotImplementedError
        create_cache_metadata: ValueError; create_paged_metadata: ValueError; init_ragged_pages: AssertionError
        quantize: NotImplementedError""",
    "xlstm.trainer": """
        log mode: mean; log mode: mean_nopostfix; log mode: single; log mode: max; log mode: std
        log mode: ValueError; log mode: single_noreduce; log mode: single_noreduce_wcount
        LoggerConfig.log_every_n_steps=1; LoggerConfig.log_path=None; LoggerConfig.log_tools=[]
        LoggerConfig.cmd_logging_name='output'; CallbackConfig.every_n_epochs=1; CallbackConfig.every_n_steps=-1
        CallbackConfig.main_process_only=False; LLMTrainerConfig.log_logit_stats=False
        ModelCheckpoint.max_to_keep=1; ModelCheckpoint.monitor=None; ModelCheckpoint.mode=min
        ModelCheckpoint.save_optimizer_state=True; ModelCheckpoint.save_dataloader_state=True
        ModelCheckpoint.async=True; ModelCheckpoint: AssertionError; train_model: ValueError 1
        train_model: ValueError 2; train_model: AssertionError; load_model: ValueError
        TrainerConfig.from_dict: ValueError; load_from_checkpoint: ValueError; restore_model: AssertionError
        restore_model(state_dict): params; restore_model(state_dict): step; restore_model(state_dict): opt_state
        restore_model(state_dict): mutable_variables; restore_model(state_dict): rng
        restore_data_loaders(state_dict): train; restore_data_loaders(state_dict): val
        restore_data_loaders(state_dict): test; eval_model(mode): val; eval_model(mode): test; DATAKEY_METRICKEY
        val_step_<step>; val_epoch_<epoch>; test; loss_mean; grad_norm_mean; grad_norm_<path>; param_norm
        param_norm_<path>; accuracy; epoch_time; step_time; optimizer/lr; perplexity; token_utilization
        tokens_per_batch; num_docs_per_batch; logits_norm; logits_std; logits_max; <intermediate>_<i>_mean
        num_params; num_optimizer_params; start_step; train_steps_per_epoch; global_batch_size; local_batch_size
        num_train_steps; output.log; file_logs/config.yaml; metrics_train.csv; checkpoints/checkpoint_<step>/
        checkpoints_dataloaders/checkpoint_<step>/; metadata/metadata; optimizer: adam; optimizer: adamw
        optimizer: sgd; optimizer: nadam; optimizer: adamax; optimizer: radam; optimizer: nadamw
        optimizer: adamaxw; optimizer: lamb; optimizer: ademamix; optimizer: none; scheduler: constant
        scheduler: cosine_decay; scheduler: exponential_decay; scheduler: linear; scheduler: AssertionError
        decay_steps; warmup_steps; cooldown_steps; cooldown_lr; end_lr; end_lr_factor; grad_clip_norm
        grad_clip_value; weight_decay_include; weight_decay_exclude""",
    "st": """
        1_Pooling; 2_Normalize; ADRMSELoss; AnglELoss; BatchAllTripletLoss; BatchHardSoftMarginTripletLoss
        BatchHardTripletLoss; BatchSamplers.NO_DUPLICATES; BatchSemiHardTripletLoss; CachedGISTEmbedLoss
        CachedMultipleNegativesRankingLoss; CachedSpladeLoss; CoSENTLoss; CosineSimilarityLoss; CrossEncoder
        CrossEncoderRerankingEvaluator; DenoisingAutoEncoderLoss; Dense; DistillKLDivLoss
        EmbeddingSimilarityEvaluator; FlopsLoss; GISTEmbedLoss; InformationRetrievalEvaluator; LambdaLoss
        LambdaRankScheme; LayerNorm; ListMLELoss; ListNetLoss; MLMTransformer; MarginMSELoss; MatryoshkaLoss
        MultiVectorEncoder; MultipleNegativesRankingLoss; NDCGLoss1Scheme; NDCGLoss2PPScheme; NDCGLoss2Scheme
        NoWeightingScheme; PListMLELoss; RankNetLoss; Router; SparseAnglELoss; SparseAutoEncoder
        SparseCoSENTLoss; SparseCosineSimilarityLoss; SparseDistillKLDivLoss
        SparseEmbeddingSimilarityEvaluator; SparseEncoder; SparseInformationRetrievalEvaluator
        SparseMarginMSELoss; SparseMultipleNegativesRankingLoss; SparseTripletEvaluator; SparseTripletLoss
        SpladeLoss; SpladePooling; SpladeRegularizerWeightSchedulerCallback; TripletEvaluator; TripletLoss
        activation_function; chunk_size; config_sentence_transformers.json; contrast_anchors
        contrast_positives; cross_encoder.losses.MarginMSELoss
        cross_encoder.losses.MultipleNegativesRankingLoss; directions; distance_metric=EUCLIDEAN
        document_regularizer_threshold; document_regularizer_weight; encode; encode_document; encode_query
        gather_across_devices=False; guide; hardness_mode; hardness_strength; k; margin_strategy
        matryoshka_dims; matryoshka_weights; max_active_dims; mini_batch_size; modules.json
        normalize_embeddings; partition_mode; pooling_strategy; prompts; query_regularizer_threshold
        query_regularizer_weight; reduction_log; scale=20.0; sentence_bert_config.json; sigma
        student_temperature; teacher_temperature; triplet_margin=5; truncate_dim; use_document_regularizer_only
        weighting_scheme""",
    "ml.trainer": """
        config.yaml; checkpoints/ckpt.pt; checkpoints/ckpt.<step>.pt; .lock_running; .lock_scheduled; .lock_ckpt
        state.txt; logs/main.log; profile/trace.step_<n>.json; run_<k>; RUN_DIR; add_lock_file: RuntimeError
        remove_lock_file: RuntimeError; exp_dir: KeyError; load_checkpoint: UnpicklingError
        train: NotImplementedError; ???; save_config; should_checkpoint; add_signal_handler; on_exit: SIGUSR1
        MinGradScaleError; NaNError; TrainingFinished; load_checkpoint(weights_only); State.num_epochs
        State.num_steps; State.num_epoch_steps; State.num_samples; State.num_epoch_samples; State.num_valid_steps
        State.num_test_steps; State.start_time_s; State.elapsed_time_s; State.raw_phase; valid_every_n_steps=None
        valid_every_n_seconds=600; valid_first_n_seconds=60; batches_per_step; batches_per_step_schedule
        batch_chunks_per_step_schedule; deterministic; use_tf32=True; detect_anomaly=False; clip_grad_norm=10.0
        clip_grad_norm_type=2; grad_scaler""",
    "trl.cpo": """
        loss_type: sigmoid; loss_type: hinge; loss_type: ipo; loss_type: simpo; beta; label_smoothing; cpo_alpha
        simpo_gamma; alpha; nll_loss""",
    "trl.orpo": "beta; max_completion_length; nll_loss; log_odds_ratio; log_odds_chosen",
    "trl.kto": """
        beta; desirable_weight; undesirable_weight; loss_type: kto; loss_type: apo_zero_unpaired; kl; rewards/chosen
        rewards/rejected; rewards/margins; logps/chosen; logps/rejected; train_sampling_strategy
        precompute_ref_log_probs; precompute_ref_batch_size; max_length; sync_ref_model; ref_model_mixup_alpha
        ref_model_sync_steps""",
    "trl.reward": """
        center_rewards_coefficient; accuracy; margin; mean_reward; min_reward; max_reward; chat_template_path
        max_length; disable_dropout""",
    "trl.grpo": """
        beta; epsilon; epsilon_high; delta; num_iterations; loss_type: grpo; loss_type: dapo
        loss_type: dr_grpo; loss_type: cispo; loss_type: sapo; loss_type: luspo; loss_type: vespo
        loss_type: bnpo; importance_sampling_level; scale_rewards; multi_objective_aggregation; reward_weights
        mask_truncated_completions; off_policy_mask_threshold; use_bias_correction_kl; sapo_temperature_pos
        sapo_temperature_neg; vespo_k_pos; vespo_lambda_pos; vespo_k_neg; vespo_lambda_neg; reward_funcs
        reward_processing_classes; peft_config
        accuracy_reward; reasoning_accuracy_reward; think_format_reward; get_soft_overlong_punishment
        get_repetition_penalty_reward; get_cosine_scaled_reward; num_generations; max_completion_length
        temperature; top_p; top_k; min_p; repetition_penalty; num_generations_eval; generation_batch_size
        steps_per_generation; generation_kwargs; cache_implementation; use_transformers_paged
        use_transformers_continuous_batching; use_vllm; vllm_mode; vllm_server_host
        vllm_gpu_memory_utilization; vllm_importance_sampling_correction; ds3_gather_for_generation
        shuffle_dataset; chat_template_kwargs; disable_dropout; log_completions; num_completions_to_print
        reward; reward_std; frac_reward_zero_std; rewards/<name>/mean; rewards/<name>/std
        completions/mean_length; completions/clipped_ratio; completions/mean_terminated_length; kl; entropy
        clip_ratio/low_mean; clip_ratio/high_mean; clip_ratio/region_mean; clip_ratio/low_min
        clip_ratio/high_max; top_entropy_quantile; entropy_coef; use_adaptive_entropy; sync_ref_model
        ref_model_mixup_alpha; ref_model_sync_steps; tools; environment_factory; rollout_func""",
    "trl.gmpo": """
        epsilon; epsilon_high; importance_sampling_level; delta; off_policy_mask_threshold; use_bias_correction_kl""",
    "trl.sdft": """
        distillation_alpha; num_loss_tokens_to_skip; teacher_model_kind: base; teacher_model_kind: live
        teacher_model_kind: ema; teacher_update_rate; teacher_sync_steps; teacher_prompt_template; privileged_context
        distillation_mode: full_logits; distillation_mode: topk_logits; distillation_topk; distillation_add_tail
        distillation_mode: sampled_token; num_iterations; steps_per_generation; distillation_is_clip
        generate_from_teacher; num_generations; num_generations_eval; max_completion_length; temperature; top_p
        top_k; min_p; repetition_penalty; max_prompt_length; use_teacher_server; use_vllm""",
    "trl.experimental": """
        A2POTrainer; AsyncGRPOTrainer; GOLDTrainer; IWOPDTrainer; SDPOTrainer; ServerDistillationTrainer
        TPOTrainer""",
    "trl.distillation": """
        teacher_model_name_or_path; beta; max_completion_length; temperature; top_p; top_k; min_p; repetition_penalty
        log_completions; num_completions_to_print; log_unique_prompts; max_tool_calling_iterations
        teacher_model_revision; teacher_model_init_kwargs""",
    "trl.rloo": """
        beta; epsilon; epsilon_high; num_iterations; normalize_advantages; reward_clip_range
        mask_truncated_completions; num_generations; temperature; top_p; max_completion_length; reward_weights
        steps_per_generation; sync_ref_model; log_completions""",
    "trl.online": """
        reward_funcs; reward_weights; judge; missing_eos_penalty; beta; loss_type: sigmoid; loss_type: ipo
        alpha; mixture_coef; max_new_tokens; max_length; temperature; top_p; top_k; min_p; repetition_penalty
        generation_kwargs; cache_implementation; use_vllm; ds3_gather_for_generation; disable_dropout
        reward_model_path; objective/kl; objective/entropy; objective/non_score_reward; objective/rlhf_reward
        objective/scores; objective/scores_margin; objective/model_scores; objective/ref_scores
        val/contain_eos_token; val/model_contain_eos_token; val/ref_contain_eos_token; rewards/probabilities
        loss/dpo; loss/xpo; loss/score; loss/kl; logps/chosen; logps/rejected; rewards/chosen; rewards/rejected
        rewards/accuracies; rewards/margins""",
    "trl.ppo": """
        value_model; reward_model; reward_model_path; num_ppo_epochs; num_mini_batches; whiten_rewards; kl_coef
        kl_estimator; cliprange; cliprange_value; vf_coef; gamma; lam; missing_eos_penalty; response_length
        stop_token; stop_token_id; temperature; total_episodes; local_rollout_forward_batch_size
        num_sample_generations; model_adapter_name; ref_adapter_name; ds3_gather_for_generation; objective/kl
        objective/entropy; objective/non_score_reward; objective/rlhf_reward; objective/scores
        policy/approxkl_avg; policy/clipfrac_avg; policy/entropy_avg; loss/policy_avg; loss/value_avg
        val/clipfrac_avg; val/ratio; val/ratio_var; val/num_eos_tokens""",
    "trl.gkd": """
        teacher_model_name_or_path; teacher_model_init_kwargs; beta; temperature; lmbda; max_new_tokens; seq_kd""",
    "trl.dpo": """
        loss_type: sigmoid; loss_type: hinge; loss_type: ipo; loss_type: robust; loss_type: exo_pair
        loss_type: nca_pair; loss_type: bco_pair; loss_type: sppo_hard; loss_type: aot; loss_type: aot_pair
        loss_type: aot_unpaired; loss_type: apo_zero; loss_type: apo_down; loss_type: discopop; loss_type: kto
        loss_type: sft; loss_type: sigmoid_norm; rewards/chosen; rewards/rejected; rewards/accuracies
        rewards/margins; logps/chosen; logps/rejected; logits/chosen; logits/rejected; entropy
        mean_token_accuracy; num_tokens; aux_loss""",
    "trl.sft": """
        truncation_mode: keep_start; truncation_mode: keep_end; packing_strategy: bfd; packing_strategy: wrapped
        loss_type: nll; loss_type: chunked_nll; loss_type: dft""",
}


def arguments(text):
    """The parts of `a: int = 1, *, b` as (name, default or None)."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "([{<") - (c in ")]}>" and text[i - 1 : i + 1] != "->")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    for part in parts:
        match = re.match(r"\*{0,2}([A-Za-z_]\w*)\s*(?::.*?)?(?:\s*=\s*(?P<default>[^=]+))?$", part)
        if match and match[1] != "self":
            yield match[1], match["default"]


def call(name, text):
    """`name`, and `name(argument=default)` for each of its options; values of a Literal behind it."""
    yield name
    for argument, default in arguments(text):
        if default is not None:
            yield f"{name}({argument}={plain(default)})"
    for argument, values in re.findall(r"(\w+): Literal\[([^\]]*)\]", text):
        for value in re.findall(r"'(\w+)'", values):
            yield f"{name}({argument}): {value}"


def plain(default):
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", default.strip())


def signature(line):
    """What lies in the first parentheses of a line."""
    begin, depth = line.index("("), 0
    for i in range(begin, len(line)):
        depth += (line[i] == "(") - (line[i] == ")")
        if depth == 0:
            return line[begin + 1 : i]
    return ""


class Page:
    """Names of a page, as its lines say them; those of its main class stand alone, others behind their class."""

    def __init__(self, main):
        self.main, self.owner, self.last, self.names, self.errors = main, "", "", [], {}

    def of(self, name):
        return name if self.owner in ("", self.main) else f"{self.owner}.{name}"

    def add_class(self, line):
        self.owner = self.last = re.match(r"class (?:[\w.]+\.)?(\w+)", line)[1]
        self.names += call(self.owner, signature(line)) if "(" in line else [self.owner]

    def add_member(self, text):
        text = re.sub(r"^(?:(?:abstract|classmethod|static|property)\s+)*", "", text)
        text = re.sub(r"^[\w.]+\.(?=\w+\()", "", text)
        match = re.match(r"(_*[A-Za-z]\w*)\s*(?P<rest>.*)$", text)
        self.last = self.of(match[1])
        if match["rest"].startswith("("):
            self.names += call(self.last, signature(text))
        else:
            value = re.match(r":.*?=\s*(?P<value>[^=]+)$", match["rest"])
            self.names.append(self.last + ("=" + plain(value["value"]) if value else ""))

    def add_error(self, kind):
        self.errors.setdefault((self.last, kind), 0)
        self.errors[self.last, kind] += 1

    def all(self):
        for (name, kind), count in self.errors.items():
            self.names += [f"{name}: {kind}" + (f" {i + 1}" if count > 1 else "") for i in range(count)]
        fields_of = {name.split("=")[0] for name in self.names if re.fullmatch(r"[\w.]+(=.*)?", name)}
        with_value = {name.split("=")[0] for name in self.names if re.fullmatch(r"[\w.]+=.*", name)}

        def is_there_otherwise(name):  # a field without its value, an option of a class that is a field of it
            option = re.match(r"([A-Z]\w*)\((\w+)=", name)
            return name in with_value or option and ({option[2], f"{option[1]}.{option[2]}"} & fields_of)

        return {name for name in self.names if not is_there_otherwise(name)}


def sphinx(text, main):
    page, functions = Page(main), set()
    for line in text.splitlines():
        member = line.rstrip().endswith("#") or "[source]#" in line
        line = line.strip().replace("[source]#", "").rstrip("#").strip()
        if member and line.startswith("class "):
            page.add_class(line)
        elif member and re.match(r"[\w. ]+($|\(|:| )", line) and not line.startswith("easydel.") or (
            re.match(r"easydel[\w.]+\(", line) or line.split("(")[0] in functions and "(" in line):
            functions.add(line.split("(")[0])
            page.add_member(line)
        elif error := re.match(r"\W*(\w+Error|Exception) [^\x00-\x7f]", line):
            page.add_error(error[1])
    page.names += re.findall(r"\b[A-Z]+(?:_[A-Z]+)*_NAME\b", text)
    page.names += re.findall(r"^([A-Z][A-Za-z]+): Type ", text, re.M)
    return page.all()


def autoapi(text):
    page = Page("TrainerModule")
    lines = text.splitlines()
    for line, following in zip(lines, lines[1:] + [""]):
        match = re.match(r"\s*\.\. py:(\w+):: (.*)$", line)
        if match and match[1] == "class":
            page.add_class("class " + match[2])
        elif match and match[1] in ("attribute", "method", "data"):
            page.add_member(match[2])
        elif value := re.match(r"\s+:value:\s*(.*)$", line):
            page.names[-1] += "=" + value[1]
    return page.all()


def flat(text):
    page = Page("BaseTrainer")
    for line in text.splitlines():
        line = line.strip()
        if not line.startswith("- "):
            if error := re.match(r"(\w+Error) ", line):
                page.add_error(error[1])
            continue
        line = line[2:].replace("[source]", "").strip()
        if line.startswith("class "):
            page.add_class(line)
        elif re.match(r"((classmethod|property) )?[\w.]+\s*[(:]", line) and line != "Parameters:":
            if line not in ("Returns:", "Raises:"):
                page.add_member(line)
    return page.all()


def listed(text):
    """`a 1 · b/c None · d X, e Y (words)`: names with their defaults."""
    for item in re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", text).split("·"):
        for piece in item.split(","):
            match = re.match(r"\s*([a-z_]+(?:/[a-z_]+)*)[ =]?(?:regex )?(\S*)", piece)
            value = (match[2] if match else "").strip('."').replace("−", "-")
            for name in match[1].split("/") if match else []:
                if ("_" in name or len(name) > 6) and not name.endswith("_"):
                    yield name + ("=" + value if value and not re.search(r"[|*]", value) else "")


def peer_page(text):
    begin = text.index("### Training arguments a user sets")
    arguments_of = text[text.index("\n", begin) : text.index("Numeric strings", begin)].replace("\n", " ")
    losses = re.search(r"`LossConfig` fields and defaults: (.*)", text)[1]
    metrics = re.search(r"`LossMetrics`: (.*)\.", text)[1]
    return {"easydel.arguments": set(listed(arguments_of)),
            "easydel.loss": {"LossConfig." + name for name in listed(losses)}
            | {"LossMetrics." + name.strip() for name in metrics.split(",")}
            | {f"problem_type: {name}" for name in ("regression", "single_label_classification",
                                                   "multi_label_classification")}
            | {f"reduction: {name}" for name in ("none", "mean", "sum")}
            | {f"loss_normalizing_factor: {name}" for name in (
                "NUM_REAL_TARGET_TOKENS", "NUM_TOTAL_TARGET_TOKENS", "AVERAGE_PER_SEQUENCE",
                "NO_WEIGHT_NUM_REAL_TARGET_TOKENS")}}


def classes(file):
    return [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ClassDef)]


def fields(cls):
    return [s.target.id for s in cls.body if isinstance(s, ast.AnnAssign) and not s.target.id.startswith("_")]


def dataclass_in(packages, file, name):
    files = [Path(root) / file for root in packages]
    return {field for f in files if f.exists() for c in classes(f) if c.name == name for field in fields(c)}


# Sections of Axolotl's file: the key below which a schema's fields stand; "": at the top.
AXOLOTL_BELOW = {
    "SFTDataset": "datasets[].", "PretrainingDataset": "pretraining_dataset[].", "DPODataset": "datasets[].",
    "KTODataset": "datasets[].", "StepwiseSupervisedDataset": "datasets[].", "SyntheticDataset": "datasets[].",
    "UserDefinedPrompterType": "datasets[].type.", "UserDefinedDPOType": "datasets[].type.",
    "UserDefinedKTOType": "datasets[].type.", "DynamicCheckpointConfig": "dynamic_checkpoint.",
    "FSDPConfig": "fsdp_config.", "SpecialTokensConfig": "special_tokens.", "RoleBoundarySpec": "role_boundaries[].",
    "LoftQConfig": "peft.loftq_config.", "PeftConfig": "peft.", "QATConfig": "qat.", "PTQConfig": "quantization.",
    "LrGroup": "lr_groups[].", "SelectiveCheckpointingConfig": "selective_checkpointing.", "TRLConfig": "trl.",
    "VllmConfig": "vllm.", "EBFTConfig": "ebft."}
AXOLOTL_INTERNAL = {"GPUCapabilities", "EnvCapabilities", "AxolotlConfigWCapabilities"}


def axolotl(folder):
    names = set()
    for file in sorted(Path(folder).glob("**/*.py")):
        for cls in classes(file):
            if cls.name not in AXOLOTL_INTERNAL:
                names |= {AXOLOTL_BELOW.get(cls.name, "") + field for field in fields(cls)}
    return names


def litgpt(folder):
    names, below = set(), {"TrainArgs": "train.", "EvalArgs": "eval.", "LogArgs": "log."}
    for cls in classes(Path(folder) / "args.py"):
        names |= {below[cls.name] + field for field in fields(cls)}
    for file in ("pretrain.py", "finetune/full.py", "finetune/lora.py", "finetune/adapter.py"):
        for node in ast.parse((Path(folder) / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name == "setup":
                names |= {a.arg for a in node.args.args}
    return names


def documents(folder):
    texts = [file.read_text() for file in sorted(Path(folder).iterdir())]
    page = lambda title: next(text for text in texts if title in text[:200])
    return {"easydel.trainer": sphinx(page("easydel.trainers.trainer_protocol"), "BaseTrainerProtocol"),
            "easydel.state": sphinx(page("easydel.infra.base_state"), "EasyDeLState"),
            "easydel.module": sphinx(page("easydel.infra.mixins.protocol"), "BaseModuleProtocol"),
            "xlstm.trainer": autoapi(page("xlstm_jax.trainer.base.trainer")),
            "ml.trainer": flat(page("ml.trainers.base"))}


def main():
    parser = argparse.ArgumentParser()
    for name in ("documents", "peers", "axolotl", "litgpt"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--packages", nargs="+", required=True)
    args = parser.parse_args()
    sources = documents(args.documents)
    sources.update(peer_page(Path(args.peers).read_text()))
    sources["hf"] = dataclass_in(args.packages, "transformers/training_args.py", "TrainingArguments")
    for key, name in (("trl.sft", "SFTConfig"), ("trl.dpo", "DPOConfig")):
        sources[key] = dataclass_in(args.packages, f"trl/trainer/{key[4:]}_config.py", name)
    sources["axolotl"], sources["litgpt"] = axolotl(args.axolotl), litgpt(args.litgpt)
    for source, text in BY_HAND.items():
        sources.setdefault(source, set()).update(name.strip() for name in re.split(r"[;\n]", text) if name.strip())
    for line in sorted(f"{source}:{name}" for source, names in sources.items() for name in names):
        print(line)


if __name__ == "__main__":
    main()
