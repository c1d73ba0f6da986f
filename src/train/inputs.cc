// Loading what a recipe names.
#include "train/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/log.h"
#include "base/memory.h"
#include "base/option_words.h"
#include "base/plugin.h"
#include "base/progress.h"
#include "base/strings.h"
#include "data/choose_template.h"
#include "data/files.h"
#include "data/labels.h"
#include "data/source_hash.h"
#include "data/stream.h"
#include "data/template_variables.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hone/safetensors.h"
#include "hub/adapter_files.h"
#include "hub/fresh.h"
#include "hub/memory.h"
#include "hub/model_tensors.h"
#include "hub/own_tokenizer.h"
#include "hub/quantized_files.h"
#include "nn/slices.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "train/adapter_base.h"
#include "train/adapter_rates.h"
#include "train/callback_state.h"
#include "train/check_context.h"
#include "train/check_models.h"
#include "train/check_records.h"
#include "train/check_schedule.h"
#include "train/check_written.h"
#include "train/checkpoint.h"
#include "train/context.h"
#include "train/frame.h"
#include "train/give_head.h"
#include "train/make_objective.h"
#include "train/meta_twin.h"
#include "train/model_source.h"
#include "train/pictures.h"
#include "train/placement.h"
#include "train/ranks.h"
#include "train/resources.h"
#include "train/resume.h"
#include "train/rounding.h"
#include "train/step_plan.h"
#include "train/stream_records.h"
#include "train/token_rows.h"
#include "train/trainable.h"
#include "train/trained_beside.h"

namespace hone::training {
namespace {

constexpr std::int64_t kLookedAt = 1000;  // rows

std::shared_ptr<const Tokenizer> tokenizer_of(const Recipe& recipe, const std::filesystem::path& checkpoint) {
  // The run's own copy, so that a run goes on when the folder it came from has gone; it has the chat template, too.
  if (recipe.tokenizer.empty() && !checkpoint.empty()) return hub::own_tokenizer(checkpoint);
  auto tokenizer =
      recipe.tokenizer.empty() ? hub::own_tokenizer(model_source(recipe.model)) : load_tokenizer(recipe.tokenizer);
  return data::with_chat_template(std::move(tokenizer), recipe.data.chat_template, "data.chat_template");
}

// config.json of a fresh model: the recipe's keys; sizes and ids that only the tokenizer knows are filled in.
config::Node fresh_config(const Recipe& recipe, const Tokenizer& tokenizer) {
  config::Node node = config::Node::map();
  for (const auto& [key, value] : recipe.model.config) node.at_or_add(key == "type" ? "model_type" : key) = value.node;
  node = hub::of_texts(node);
  const bool none = tokenizer.vocab_size() == 0;
  if (none && !node.find("vocab_size"))
    throw Error(ErrorKind::config, "model.vocab_size: missing; tokenizer is none, so nothing else says it");
  hub::add_tokenizer_keys(node, none ? nullptr : &tokenizer);
  for (const std::string& key : hub::keys_without_effect(node, "model"))
    log::warning("model.{}: changes nothing of a fresh model", key);
  return node;
}

// What cannot be had of a stream. Its first row comes when the run asks for it.
void check_stream(const Recipe& recipe) {
  Problems problems;
  const auto refuse = [&](bool given, const char* option, const char* fact) { problems.require(!given, option, fact); };
  refuse(!recipe.trainer.steps && !recipe.trainer.tokens, "trainer.steps",
         "missing: data.train is a stream, and nobody knows how long an epoch of it is");
  refuse(recipe.trainer.epochs.has_value(), "trainer.epochs",
         "data.train is a stream, and nobody knows how long an epoch of it is; set trainer.steps instead");
  refuse(recipe.trainer.eval_every_epochs > 0, "trainer.eval_every_epochs",
         "data.train is a stream, and nobody knows how long an epoch of it is; set trainer.eval_every instead");
  refuse(recipe.data.eval.held_out.value_or(0) > 0, "data.eval.held_out",
         "nothing of a stream can be held out; name a file, as in data.eval: {news: news.jsonl}");
  refuse(recipe.data.cache.value_or("none") != "none", "data.cache", "a stream is not kept; leave it out");
  problems.raise();
}

std::shared_ptr<const TrainingData> load_train(const Recipe& recipe, const Dataset::Options& options, Inputs& inputs) {
  if (inputs.train) {
    if (!inputs.train->as_dataset()) check_stream(recipe);
    if (recipe.data.deduplicate)
      throw Error(ErrorKind::config, "data.deduplicate: data.train is in memory; Dataset::Options has deduplicate");
    return inputs.train;
  }
  if (data::is_stream(recipe.data.train)) {
    check_stream(recipe);
    if (const std::string option = make_objective(recipe)->needs().numbers_first; !option.empty())
      throw Error(ErrorKind::config,
                  fmt::format("objective.{}: data.train is a stream, whose records are not known before the first step",
                              option))
          .hint("leave it out, or name files");
    return data::open_stream(recipe.data.train, inputs.tokenizer, options);
  }
  return Dataset::make(recipe.data.train, *inputs.tokenizer, options);
}

// Without what is held out.
std::shared_ptr<const TrainingData> part_train(const Recipe& recipe, Inputs& inputs) {
  if (!inputs.train->as_dataset()) return inputs.train;
  std::shared_ptr<const Dataset> train = std::static_pointer_cast<const Dataset>(inputs.train);
  if (recipe.data.eval.held_out.value_or(0) > 0) {
    const auto [held_out, rest] = train->split(*recipe.data.eval.held_out, recipe.run.seed);
    inputs.evals.push_back({"held_out", held_out});
    train = rest;
  }
  if (train->rows() == 0) throw Error(ErrorKind::data, "data.train: no row to train on");
  return train;
}

// What is read after the run fails before it.
void look_for_test(const std::string& name, const std::vector<DataFile>& files) {
  during("looking for data.test." + name, [&] {
    for (const DataFile& entry : files)
      for (const DataFile& file : data::files_of(entry).files)
        if (!file.path.empty() && !std::filesystem::exists(file.path))
          throw Error(ErrorKind::data, file.path + ": no such file");
  });
}

// What is compared with something needs it of every record.
void check_answers(const Needs& needs, const std::string& option, const Dataset& data) {
  const DataReport& report = data.report();
  if (needs.compares_answers.empty() || report.without_answer == 0) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: {} of {} have no answer, with which {} compares those of the model", option,
                          report.without_answer, counted(report.records, "record"), needs.compares_answers))
      .hint(columns_words({{"answer", "solution"}}) + " reads it from another field");
}

// Of language data whose answers are made anew: looked at here and there, each when its turn comes.
void check_prompts(const Needs& needs, const std::string& option, const Dataset& data) {
  if (needs.answers == 0 || needs.records != RecordKind::language) return;
  const std::int64_t stride = std::max<std::int64_t>(1, data.rows() / kLookedAt);
  for (std::int64_t row = 0; row < data.rows(); row += stride)
    for (const HostDoc& doc : data.row(row))
      if (!doc.targets.empty() && doc.targets[0] != -100)
        throw Error(ErrorKind::data, fmt::format("{}: {}: no prompt, as all of its tokens are learnt; expected a "
                                                 "prompt and a completion, or messages",
                                                 option, data.record_name(doc.record)))
            .hint("data.loss: completion or assistant tells prompts apart");
}

void load_data(const Recipe& recipe, const Needs& needs, Dataset::Options options, Inputs& inputs) {
  const DataSection& data = recipe.data;
  options.cache_folder = cache_folder(recipe);
  const bool holds_out = data.eval.held_out.value_or(0) > 0, compares = writes_answers(recipe);
  options.questions.keep_texts = holds_out, options.keep_references = holds_out && compares;
  inputs.train = load_train(recipe, options, inputs);
  options.questions.keep_texts = true, options.keep_references = compares;
  inputs.train = part_train(recipe, inputs);
  options.labels = inputs.train->labels();
  options.deduplicate = false;                // what is measured on is as it was given
  options.token_labels.last_step_only = false;
  for (const auto& [name, files] : data.eval.files) {
    const bool given = std::any_of(inputs.evals.begin(), inputs.evals.end(),
                                   [&](const EvalSet& set) { return set.name == name; });
    if (!given) inputs.evals.push_back(
        {name, during("reading data.eval." + name, [&] { return Dataset::make(files, *inputs.tokenizer, options); })});
  }
  for (const auto& [name, files] : data.test.files) look_for_test(name, files);
  if (const Dataset* dataset = inputs.train->as_dataset())
    Loader::check(*dataset, {.batch_size = recipe.trainer.batch_size.automatic ? 1 : recipe.trainer.batch_size.rows,
                             .accumulate = recipe.trainer.accumulate,
                             .warmup = batch_stages(recipe.trainer)});
  Problems problems;
  check_schedule(recipe, steps_of(recipe, inputs), problems);
  problems.raise();
  const auto check = [&](const std::string& option, const Dataset& data) {
    check_answers(needs, option, data);
    check_prompts(needs, option, data);
    check_records(recipe, *inputs.model, data);
  };
  if (const Dataset* dataset = inputs.train->as_dataset()) {
    check("data.train", *dataset);
    check_negatives(recipe, *dataset);
    check_classes(recipe, *dataset);
    check_orders(recipe, *dataset);
  }
  const auto check_measured = [&](const std::string& option, const Dataset& data) {
    check(option, data);
    check_written(recipe, option, data);
    check_measured_classes(recipe, option, data);
    check_measured_orders(recipe, option, data);
  };
  for (const EvalSet& set : inputs.evals) check_measured("data.eval: " + set.name, *set.data);
  const bool may_be_blind = compares && inputs.model->pictures();  // to a test set's pictures
  if (data::are_texts(needs.records) || is_of_numbers(needs) || may_be_blind)
    for (const auto& [name, files] : data.test.files)
      check_measured("data.test: " + name, *during("reading data.test." + name, [&, &files = files] {
        return Dataset::make(files, *inputs.tokenizer, options);
      }));
  for (const EvalSet& set : inputs.evals)
    if (set.data->rows() == 0)
      throw Error(ErrorKind::data, fmt::format("data.eval: {}: no row to evaluate on", set.name));
}

// What hides tokens. Error(config).
void check_mask_token(const Needs& needs, const Inputs& inputs, const Recipe& recipe) {
  if (!needs.masked_lm || needs.records == RecordKind::embedding) return;  // texts to embed have nothing hidden
  if (!inputs.tokenizer->mask_id)
    throw Error(ErrorKind::config,
                fmt::format("objective {}: the tokenizer has no mask token; expected one, as BERT's [MASK]",
                            recipe.objective.type))
        .hint("hone extend --mask makes one of a token, and --special-tokens adds it where it is not there");
  if (*inputs.tokenizer->mask_id >= inputs.model->vocab_size())
    throw Error(ErrorKind::config,
                fmt::format("objective {}: the tokenizer's mask token is {}, and the model has rows for {} tokens",
                            recipe.objective.type, *inputs.tokenizer->mask_id, inputs.model->vocab_size()))
        .hint("hone extend gives the model rows for all of its tokenizer's tokens");
}

}  // namespace

Dataset::Options dataset_options(const DataSection& data, RecordKind records) {
  Dataset::Options options;
  options.max_length = data.max_length;
  options.overlong = data.overlong;
  const bool alone =
      are_labelled(records) || records == RecordKind::asked || data::are_texts(records) ||
      records == RecordKind::seq2seq;
  options.packing = data.packing.value_or(alone ? Packing::none : Packing::best_fit);
  options.append_eos = data.append_eos;
  options.deduplicate = data.deduplicate;
  options.loss = data.loss;
  options.records = records;
  options.window = data.stream_window;
  options.chat_template_kwargs = data::variables_text(data.chat_template_kwargs);
  return options;
}

// How the objective's targets become documents.
static TargetOptions target_options(const Needs& needs, const Model* model) {
  TargetOptions made{.max_length = needs.max_target_length};
  if (const Seq2SeqLm* lm = model ? model->seq2seq_lm() : nullptr) made.start = lm->decoder_start();
  made.source_language = needs.source_language, made.target_language = needs.target_language;
  return made;
}

Dataset::Options dataset_options(const DataSection& data, const Needs& needs, const Model* model) {
  Dataset::Options options = dataset_options(data, needs.records);
  options.problem_type = needs.problem_type;
  options.token_labels = needs.token_labels, options.questions = needs.questions;
  options.teacher_log_probs = needs.teacher_log_probs, options.teacher_temperature = needs.teacher_temperature;
  options.targets = target_options(needs, model);
  options.query_prompt = needs.query_prompt, options.document_prompt = needs.document_prompt;
  options.token_vectors = needs.token_vectors;
  options.teacher_prompt = needs.teacher_prompt;
  options.labels = needs.labels;
  return options;
}

// What is trained: an adapter's weights, or those of the model that the recipe names.
void choose_trained(const Recipe& recipe, const std::filesystem::path& checkpoint, Inputs& inputs) {
  if (recipe.adapter.type.empty()) return choose_trainable(*inputs.model, recipe.model.trainable);
  inputs.adapter = with_token_numbers(recipe.adapter, *inputs.tokenizer);
  inputs.adapter_source = checkpoint;
  if (recipe.adapter.path.empty()) {
    inputs.adapter_report = plan_lora(*inputs.model, *inputs.adapter);
    return;
  }
  if (checkpoint.empty()) inputs.adapter_source = find_adapter_folder(recipe.adapter.path);
  LoraConfig& config = *inputs.adapter;
  std::tie(config, inputs.adapter_report) = hub::plan_adapter(*inputs.model, inputs.adapter_source);
  config.dropout = recipe.adapter.dropout, config.loraplus_lr_ratio = recipe.adapter.loraplus_lr_ratio;
  config.loraplus_lr_embedding = recipe.adapter.loraplus_lr_embedding;
  config.init = "default";
  const std::string fact = checkpoint.empty() ? changed_base(inputs.adapter_source, inputs.source) : "";
  if (!fact.empty()) log::warning("adapter.path: {}", fact);
}

// Beside an adapter weights may be held in fewer bits.
void choose_held(const Recipe& recipe, Inputs& inputs) {
  const Quantization& how = recipe.model.quantization;
  if (inputs.in_memory) {
    if (how.type != QuantType::stored)
      throw Error(ErrorKind::config, "model.quantization: the model was given in memory, as it is");
    return;
  }
  if (inputs.adapter) return choose_quantized(*inputs.model, how, inputs.source);
  if (how.type != QuantType::stored || inputs.source.empty() || !hub::holds_quantized(inputs.source)) return;
  throw Error(ErrorKind::config, fmt::format("model.path: {}: its weights are quantized, and all that is trained is "
                                             "kept in full",
                                             inputs.source.string()))
      .hint("adapter: {type: lora} trains beside them; model.quantization: none takes what they stand for");
}

std::unique_ptr<Model> meta_model(const Inputs& inputs, WeightTypes types, int slices) {
  std::unique_ptr<Model> twin = inputs.adapter ? meta_twin(*inputs.model, inputs.source, *inputs.adapter, types, slices)
                                               : meta_twin(*inputs.model, inputs.source, types, slices);
  add_meta_beside(*inputs.model, types, *twin);
  return twin;
}

namespace {

// What some steps of the run, or its callbacks, cannot do with this model.
void check_steps(const Recipe& recipe, const Inputs& inputs) {
  const std::int64_t steps = steps_of(recipe, inputs);
  const TrainedByStep refuses(recipe.model.trainable, *inputs.model, steps);
  if (recipe.callbacks.empty()) return;
  const std::unique_ptr<Model> adapted = inputs.adapter ? meta_model(inputs, recipe.trainer.precision) : nullptr;
  for (const config::Choice<Callback>& choice : recipe.callbacks) {
    const std::unique_ptr<Callback> made = registries().callbacks.make(choice);
    const auto asked = [&](const char* what) { return [&, what] { return "callback " + choice.type + ", " + what; }; };
    in_plugin(asked("check"), [&] { made->check(adapted ? *adapted : *inputs.model, steps); });
    in_plugin(asked("visit_state"), [&] { take_state(*made, choice.type); });  // its names
  }
}

// What the recipe changes in the config.json that the model comes with.
ModelSection changes_of(const Recipe& recipe, const std::filesystem::path& checkpoint) {
  if (!recipe.model.path.empty() || checkpoint.empty() || !recipe.adapter.type.empty()) return recipe.model;
  return changed_model(recipe.model, Env::process().open_folder(checkpoint));
}

Begun begun_by(const std::filesystem::path& checkpoint, const TrainerInputs& given) {
  if (checkpoint.empty())
    return given.state ? Begun{given.state->frame().run.step, given.state->frame().run.rows} : Begun{};
  const Folder folder = Env::process().open_folder(checkpoint);
  const RunState state = load_state(folder);
  return {state.step, state.rows < 0 ? rows_before(folder, state.step) : state.rows};
}

// What is there already.
Inputs inputs_of(const Recipe& recipe, const std::filesystem::path& checkpoint, const TrainerInputs& given) {
  Inputs inputs;
  inputs.tokenizer = given.tokenizer
                         ? data::with_chat_template(given.tokenizer, recipe.data.chat_template, "data.chat_template")
                         : tokenizer_of(recipe, checkpoint);
  inputs.model = given.model;
  inputs.in_memory = given.model != nullptr;
  inputs.train = given.train;
  inputs.evals = given.evals;
  inputs.collator = given.collator;
  inputs.begun = begun_by(checkpoint, given);
  return inputs;
}

}  // namespace

Inputs load_inputs(const Recipe& recipe, const std::filesystem::path& checkpoint, const TrainerInputs& given) {
  Inputs inputs = inputs_of(recipe, checkpoint, given);
  if (!checkpoint.empty() && recipe.adapter.type.empty())
    inputs.source = checkpoint;
  else if (!recipe.model.path.empty() && !inputs.in_memory)
    inputs.source = model_source(recipe.model);
  const std::string file = inputs.source.empty() ? "model" : (inputs.source / "config.json").string();
  config::Node config;
  if (inputs.in_memory) {
    config = inputs.model->hf_config();
  } else if (inputs.source.empty()) {
    config = fresh_config(recipe, *inputs.tokenizer);
    inputs.model = build_model(config, file);
  } else {
    const ModelSection changes = changes_of(recipe, checkpoint);
    const bool say = checkpoint.empty() || recipe.model.path.empty();  // for the first time
    const config::Node read = config::read_file(file);
    const bool half = recipe.model.texts_only && (say || read.find("vision_config"));
    config = with_changes(half ? hub::half_of(read, file) : hub::of_texts(read), changes, say);
    inputs.model = build_model(config, file);
    if (say) check_changes(changes, inputs.model->hf_config(), inputs.source.string());
  }
  const std::unique_ptr<Objective> objective = make_objective(recipe);
  const Needs needs = objective->needs();
  check_lengths(*inputs.model, "", needs, recipe);
  const bool labelled = are_labelled(needs.records);  // then the head is for labels that the data have
  const auto with_head = [&](const std::vector<std::string>& labels) {
    const bool of_tokens = data::are_of_tokens(needs.records);
    const auto problem_type = labelled && !of_tokens ? std::optional(needs.problem_type) : std::nullopt;
    HeadRequest head{labels, needs.masked_lm, problem_type, of_tokens};
    if (needs.records == RecordKind::question) {
      head.labels.assign(kPlacesOfAnswers.begin(), kPlacesOfAnswers.end());
      head.answers_questions = true;
    }
    if (auto made = model_with_head(*inputs.model, head, config, file, recipe, inputs.in_memory)) {
      inputs.other_labels = has_other_labels(*inputs.model, head);
      inputs.model = std::move(made);
    }
    const BesideFrom from{recipe, needs, checkpoint, config, file, inputs.source, *inputs.tokenizer, inputs.in_memory};
    inputs.beside = add_beside(from, *inputs.model);
    objective->check(*inputs.model);
    choose_trained(recipe, checkpoint, inputs);
    choose_held(recipe, inputs);
    round_weights(*inputs.model, recipe);
  };
  if (!labelled) with_head(needs.labels);
  check_mask_token(needs, inputs, recipe);
  check_other_models(needs, recipe, {*inputs.model, *inputs.tokenizer, inputs.in_memory});
  Dataset::Options options = dataset_options(recipe.data, needs, inputs.model.get());
  if (needs.answers > 0) {  // a row is a prompt, and all of it
    options.packing = Packing::none;
    if (options.overlong == Overlong::split) options.overlong = Overlong::drop;
  }
  options.vocab_size = inputs.model->vocab_size();
  if (needs.pictures)
    options.pictures =
        pictures_of(*inputs.model, inputs.source.empty() ? std::filesystem::path(recipe.tokenizer) : inputs.source);
  options.labels = known_labels(needs, *inputs.model);
  check_writing(recipe, inputs.source.string(), *inputs.model, *inputs.tokenizer);
  load_data(recipe, needs, options, inputs);
  if (labelled) with_head(inputs.train->labels());
  check_steps(recipe, inputs);
  inputs.process = resident_memory();
  return inputs;
}

namespace {

bool all_in(const std::filesystem::path& folder, Precision precision) {
  const hub::ModelTensors tensors(folder);
  return std::all_of(tensors.all().begin(), tensors.all().end(), [&](const auto& entry) {
    return tensors.exact_in(entry.first) == safetensors_name(hub::type_of(precision));
  });
}

// In fp32 (fp64), as masters are. What a run that goes on from an adapter begins with is its reference.
void fill_adapter(Inputs& inputs, const Recipe& recipe, bool resumed) {
  const Precision wide = recipe.trainer.precision == Precision::fp64 ? Precision::fp64 : Precision::fp32;
  const bool continued = !recipe.adapter.path.empty();
  const auto models = make_objective(recipe)->needs().models;
  const bool compared = std::any_of(models.begin(), models.end(), [](const auto& role) { return role.second.empty(); });
  const bool below = trained_parameters(*inputs.model) == 0;  // else the reference is a model of its own
  if (continued && compared && below)
    load_adapter(*inputs.model, find_adapter_folder(recipe.adapter.path),
                 {.name = kStartAdapter, .precision = recipe.trainer.precision});
  if (inputs.adapter_source.empty())
    inputs.adapter_report = apply_lora(*inputs.model, *inputs.adapter, recipe.run.seed);
  else
    load_adapter(*inputs.model, inputs.adapter_source,
                 {.precision = wide, .as = resumed || continued ? inputs.adapter : std::nullopt});
  set_table_rates(*inputs.model, recipe);
}

}  // namespace

WeightTypes types_to_read(Precision run, const std::filesystem::path& folder) {
  const bool wide = has_masters(run) && (folder.empty() || !all_in(folder, run));
  return {wide ? Precision::fp32 : run, run};
}

void fill_weights(Inputs& inputs, const Recipe& recipe, bool resumed) {
  const Precision run = recipe.trainer.precision;
  const WeightTypes types = types_to_read(run, inputs.source);
  inputs.model->set_device(device_of(recipe));
  devices::round_products(recipe.trainer.matmul_precision == MatmulPrecision::high);
  devices::want_same_bits(recipe.trainer.deterministic == Determinism::strict);
  if (inputs.in_memory && !resumed) return;
  if (inputs.source.empty())
    init_weights(*inputs.model, recipe.run.seed, types);
  else if (resumed && !inputs.adapter)
    load_weights(*inputs.model, inputs.source, types);
  else
    load_weights(*inputs.model, inputs.source, types,
                 FreshWeights{recipe.run.seed, inputs.other_labels, !recipe.model.load.strict});
  if (inputs.adapter) fill_adapter(inputs, recipe, resumed);
}

void make_weights(Inputs& inputs, const Recipe& recipe, const World& world, bool resumed) {
  check_context_models(recipe, world.size(), {*inputs.model, inputs.adapter, inputs.adapter_report.adapted});
  if (inputs.filled) return;
  const int slices = slices_of(recipe, world.size());
  if (slices > 1) nn::cut_weights(*inputs.model, world.rank() % slices, slices);
  if (is_sharded(recipe, world) && !inputs.adapter)
    parallel::share_out(*inputs.model, parallel::Sharers(world, slices));
  fill_weights(inputs, recipe, resumed);
  fill_beside(*inputs.model, inputs.beside, recipe.run.seed,
              [&](const std::filesystem::path& folder) { return types_to_read(recipe.trainer.precision, folder); });
  inputs.filled = true;
}

std::int32_t pad_id_of(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const std::int32_t id = tokenizer.pad_id.value_or(tokenizer.eos_id.value_or(0));
  return id < vocab_size ? id : 0;
}

bool learns_one_of(const Dataset& data, const std::vector<std::int32_t>& tokens) {
  const std::int64_t stride = std::max<std::int64_t>(1, data.rows() / kLookedAt);
  const auto wanted = [&](std::int64_t id) { return std::find(tokens.begin(), tokens.end(), id) != tokens.end(); };
  for (std::int64_t row = 0; row < data.rows(); row += stride)
    for (const HostDoc& doc : data.row(row))
      if (std::any_of(doc.targets.begin(), doc.targets.end(), wanted)) return true;
  return false;
}

std::optional<std::int32_t> learnt_turn_end(const Recipe& recipe, const Inputs& inputs) {
  if (!inputs.has_tokenizer() || !inputs.model->causal_lm() || inputs.model->seq2seq_lm()) return std::nullopt;
  const std::optional<std::int32_t> end = data::turn_end(*inputs.tokenizer);
  if (!end || *end >= inputs.model->vocab_size()) return std::nullopt;
  const Dataset* train = inputs.train->as_dataset();
  const bool joins = !recipe.data.chat_template.empty() || !train || learns_one_of(*train, {*end});
  return joins ? end : std::nullopt;
}

std::shared_ptr<const Collator> make_collator(const Recipe& recipe, const Inputs& inputs) {
  if (inputs.collator) return inputs.collator;
  const std::int64_t vocab_size = inputs.model->vocab_size();
  return registries().collators.make(recipe.data.collator,
                                     {*inputs.tokenizer, vocab_size, pad_id_of(*inputs.tokenizer, vocab_size)});
}

Loader::Options loader_options(const Recipe& recipe, const Inputs& inputs) {
  const TrainerSection& t = recipe.trainer;
  return {t.batch_size,
          t.accumulate,
          recipe.run.seed,
          recipe.data.shuffle,
          pad_id_of(*inputs.tokenizer, inputs.model->vocab_size()),
          make_collator(recipe, inputs),
          kStepsReadAhead,
          batch_stages(t),
          longest_documents(recipe.data),
          inputs.tokenizer->bos_id.value_or(-1)};
}

std::string cache_folder(const Recipe& recipe) {
  if (!recipe.data.cache) return (std::filesystem::path(recipe.run.folder) / "cache").string();
  return *recipe.data.cache == "none" ? "" : *recipe.data.cache;
}

namespace {

// Of data whose length is known by what its rows hold on average; rows of a stream are full, of texts to embed or to
// rank of as many as their records have.
double tokens_of_row(const Recipe& recipe, const Inputs& inputs) {
  const Dataset* data = inputs.train->as_dataset();
  const auto length = static_cast<double>(recipe.data.max_length);
  if (const Needs needs = make_objective(recipe)->needs(); !data && data::are_texts(needs.records))
    return length * stream_records(needs, *inputs.train, inputs.evals).mean;
  if (!data || data->rows() == 0) return length;
  return static_cast<double>(data->report().tokens) / static_cast<double>(data->rows());
}

}  // namespace

std::int64_t rows_until(std::int64_t step, const Recipe& recipe, const Inputs& inputs) {
  const data::StepSizes sizes = step_sizes(recipe.trainer);
  const Begun& begun = inputs.begun;
  return sizes.rows_before(step) + (begun.rows < 0 ? 0 : begun.rows - sizes.rows_before(begun.step));
}

std::int64_t steps_of(const Recipe& recipe, const Inputs& inputs) {
  const TrainerSection& trainer = recipe.trainer;
  if (trainer.steps) return *trainer.steps;
  const Dataset* data = inputs.train->as_dataset();
  HONE_ASSERT(trainer.tokens || data != nullptr);  // a stream needs steps or tokens
  const double rows = trainer.tokens ? static_cast<double>(*trainer.tokens) / tokens_of_row(recipe, inputs)
                                     : trainer.epochs.value_or(1) * static_cast<double>(data->epoch_rows());
  const auto others = static_cast<double>(rows_until(0, recipe, inputs));  // that steps of other batches have taken
  return std::max<std::int64_t>(1, step_sizes(trainer).steps_for(rows - others));
}

nlohmann::json file_hashes(const Recipe& recipe) {
  nlohmann::json hashes = nlohmann::json::object();
  for (const DataFile& entry : recipe.data.train)
    if (entry.path != kInMemory)
      for (const DataFile& file : data::files_of(entry).files)
        hashes[file.path] = data::SourceHash(file.path, cache_folder(recipe)).hash();
  return hashes;
}

}  // namespace hone::training
