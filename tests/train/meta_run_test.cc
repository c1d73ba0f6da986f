// What is foretold of a run's memory beside what its tensors then take; the batch size that follows; tables of weights.
#include "train/meta_run.h"

#include <sys/stat.h>

#include "hone/registry.h"
#include "tensor/meta_memory.h"
#include "train/batch_size.h"
#include "train/complete.h"
#include "train/counted.h"
#include "train/plan.h"
#include "train/support.h"
#include "train/weight_table.h"

namespace hone {
namespace {

using test::Counted;

class MetaRun : public ::testing::Test {
 protected:
  Recipe recipe(test::Overrides more) {
    test::Overrides all{{"model.hidden_size", "128"},    {"model.intermediate_size", "320"},
                        {"model.num_hidden_layers", "3"}, {"model.vocab_size", "2000"},
                        {"data.max_length", "128"},       {"trainer.batch_size", "8"},
                        {"trainer.steps", "2"},           {"data.eval.held_out", "0"},
                        {"trainer.save.every", "0"}};
    if (std::any_of(more.begin(), more.end(), [](const auto& one) { return one.first == "model"; }))
      std::erase_if(all, [](const auto& one) { return one.first.starts_with("model."); });
    all.insert(all.end(), more.begin(), more.end());
    folder_.write("train.jsonl", test::story_lines(1500));
    return test::small_recipe(folder_, all);
  }
  training::MemoryPlan plan(const Recipe& given) {
    log::set_level(log::Level::warning);
    const Recipe whole = training::completed_for_preview(given);
    return training::plan_memory(whole, training::load_inputs(whole, ""));
  }
  // Bytes of tensors: foretold, and at most in the run.
  void expect_close(const Recipe& recipe, double bound = 0.05) {
    const training::MemoryPlan found = plan(recipe);
    EXPECT_EQ(found.unknown, "");
    const double foretold = static_cast<double>(found.lasting() + std::max(found.backward, found.evaluation));
    Counted& counted = Counted::installed();
    const std::int64_t before = counted.used;
    counted.restart();
    TrainOptions options = test::quiet_options();
    options.fresh = std::filesystem::exists(recipe.run.folder);
    train(recipe, options);
    const double came = static_cast<double>(counted.most - before);
    EXPECT_NEAR(foretold / came, 1, bound) << foretold << " foretold, " << came << " came";
  }
  test::TempFolder folder_;
};

TEST_F(MetaRun, ForetellsTheTensorsOfARun) {
  for (const test::Overrides& more : std::vector<test::Overrides>{
           {},
           {{"trainer.precision", "bf16"}},
           {{"trainer.checkpoint_blocks", "true"}},
           {{"trainer.accumulate", "2"}, {"trainer.ema", "0.9"}},
           {{"optimizer.type", "sgd"}, {"trainer.batch_size", "2"}},
           {{"model.trainable", "[lm_head]"}, {"trainer.precision", "bf16"}}}) {
    std::string what;
    for (const auto& [option, value] : more) what += option + "=" + value + " ";
    SCOPED_TRACE(what);
    expect_close(recipe(more));
  }
}

TEST_F(MetaRun, ForetellsRoutedExpertsAndAdapters) {
  expect_close(recipe({{"model", test::routed_model()}, {"trainer.batch_size", "16"}}), 0.1);
  const Recipe base = recipe({{"run.folder", (folder_ / "base").string()}});
  train(base, test::quiet_options());
  Recipe with = recipe({{"trainer.precision", "bf16"}});
  with.model = {};
  with.model.path = (folder_ / "base").string();
  with.adapter.type = "lora";
  expect_close(with);
}

TEST_F(MetaRun, BlocksAndRowsTakeTheirShare) {
  const training::MemoryPlan few = plan(recipe({})), many = plan(recipe({{"trainer.batch_size", "16"}}));
  ASSERT_EQ(few.blocks.size(), 3u);
  EXPECT_NEAR(static_cast<double>(many.blocks[1]) / static_cast<double>(few.blocks[1]), 2, 0.1);
  EXPECT_EQ(few.lasting(), many.lasting());
  const training::MemoryPlan again = plan(recipe({{"trainer.checkpoint_blocks", "true"}}));
  EXPECT_LT(again.blocks[1] * 4, few.blocks[1]);
  const auto read_ahead = [&](const char* accumulate) {
    return plan(recipe({{"trainer.accumulate", accumulate}})).batches;
  };
  EXPECT_EQ(read_ahead("64"), 8 * read_ahead("8"));
  EXPECT_GE(read_ahead("8"), 4u * 8u * 36u * static_cast<std::uint64_t>(few.tokens));  // 4 steps; 36 bytes a token
  EXPECT_EQ(few.checkpoint_copy, 0u);
  const training::MemoryPlan beside = plan(recipe({{"trainer.save.asynchronous", "true"}}));
  EXPECT_GT(beside.peak - beside.process, few.peak - few.process + few.checkpoint / 2);  // whatever the process takes
}

// No op of theirs is unknown to the meta device.
TEST_F(MetaRun, GoesThroughAllOptimizersAndObjectives) {
  for (const std::string& type : registries().optimizers.names())
    if (type != "groups") {
      EXPECT_EQ(plan(recipe({{"optimizer", "{type: " + type + "}"}})).unknown, "") << type;
    }
  std::string pairs, labelled;
  for (int i = 0; i < 400; ++i) {
    pairs += fmt::format(R"({{"prompt": "what is {0}", "chosen": "it is {0}", "rejected": "not known"}})", i) + "\n";
    labelled += fmt::format(R"({{"text": "text {}", "label": "l{}"}})", i, i % 3) + "\n";
  }
  folder_.write("pairs.jsonl", pairs), folder_.write("labelled.jsonl", labelled);
  const training::MemoryPlan dpo =
      plan(recipe({{"objective", "{type: dpo}"}, {"data.train", (folder_ / "pairs.jsonl").string()}}));
  EXPECT_EQ(dpo.unknown, "");
  EXPECT_NEAR(static_cast<double>(dpo.other_models) / static_cast<double>(dpo.weights), 1, 0.01);
  const training::MemoryPlan weighted = plan(recipe({{"objective", "{type: dpo, use_weighting: true, ld_alpha: 0.5}"},
                                                     {"data.train", (folder_ / "pairs.jsonl").string()}}));
  EXPECT_EQ(weighted.unknown, "");
  // Mixed in fp32, and then kept in checkpoints.
  const auto following = [&](const std::string& precision, const std::string& steps) {
    return plan(recipe({{"objective", "{type: dpo, reference_sync_steps: " + steps + "}"},
                        {"trainer.precision", precision},
                        {"data.train", (folder_ / "pairs.jsonl").string()}}));
  };
  for (const auto& [precision, weights] : {std::pair("fp32", 0.0), std::pair("bf16", 2.0)}) {
    const training::MemoryPlan still = following(precision, "0"), moves = following(precision, "2");
    const auto more = static_cast<double>(moves.other_models - still.other_models);
    EXPECT_NEAR(more / static_cast<double>(still.weights), weights, 0.02) << precision;
    EXPECT_GT(moves.checkpoint, still.checkpoint + still.weights / 2) << precision;
  }
  for (const char* type : {"orpo", "cpo", "kto", "reward"})
    EXPECT_EQ(plan(recipe({{"objective", type}, {"data.train", (folder_ / "pairs.jsonl").string()}})).unknown, "");
  const std::string stream = "[{stream: true, path: " + (folder_ / "pairs.jsonl").string() + "}]";
  const training::MemoryPlan read =
      plan(recipe({{"objective", "{type: dpo}"}, {"data.train", stream}, {"data.max_length", "96"}}));
  EXPECT_EQ(read.unknown, "");
  EXPECT_EQ(read.tokens, read.rows * 2 * 96);
  EXPECT_EQ(plan(recipe({{"objective", "{type: classification}"},
                         {"model", "{type: bert, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
                                   "num_attention_heads: 2}"},
                         {"data.train", (folder_ / "labelled.jsonl").string()}}))
                .unknown,
            "");
}

// As many texts as the first records have, and not two; of a pipe as those of a set beside it.
TEST_F(MetaRun, StreamsOfListsArePlannedByTheirTexts) {
  std::string lists;
  const std::string text(200, 'x');
  for (int i = 0; i < 64; ++i)
    lists += fmt::format(R"({{"query": "what {0}? {1}", "documents": ["{0} {1}", "b {1}", "c {1}", "d {1}", "e {1}"])"
                         R"(, "scores": [1, 0, 0, 0, {2}]}})",
                         i, text, i % 2) +
             "\n";
  const std::string file = folder_.write("lists.jsonl", lists).string(), pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string sizes = "hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2, "
                            "hidden_dropout_prob: 0, attention_probs_dropout_prob: 0";
  const auto planned = [&](const char* objective, const std::string& train, test::Overrides more = {}) {
    test::Overrides all{{"model", "{type: bert, " + sizes + "}"},
                        {"objective", objective}, {"data.max_length", "96"}, {"data.train", train}};
    all.insert(all.end(), more.begin(), more.end());
    const training::MemoryPlan made = plan(recipe(all));
    EXPECT_EQ(made.unknown, "") << objective;
    return made;
  };
  for (const auto& [objective, documents] : {std::pair("{type: ranking}", 5),
                                             {"{type: ranking, loss_type: list_net}", 5},
                                             {"{type: embedding, loss_type: margin_mse}", 6}}) {
    SCOPED_TRACE(objective);
    const training::MemoryPlan known = planned(objective, file),
                               stream = planned(objective, "[{stream: true, path: " + file + "}]"),
                               piped = planned(objective, "[" + pipe + "]", {{"data.eval.all", file}}),
                               blind = planned(objective, "[" + pipe + "]");
    EXPECT_EQ(stream.tokens, stream.rows * documents * 96);
    EXPECT_EQ(stream.tokens, known.tokens);
    EXPECT_NEAR(static_cast<double>(stream.kept) / static_cast<double>(known.kept), 1, 0.02);
    EXPECT_EQ(piped.tokens, stream.tokens);
    EXPECT_EQ(blind.tokens, blind.rows * (documents == 6 ? 3 : 2) * 96);  // a query with two texts
  }
  for (const char* type : {"multiple_negatives_ranking", "triplet", "cosent", "cosine_similarity", "distill_kl_div"})
    planned((std::string("{type: embedding, loss_type: ") + type + "}").c_str(), "[" + pipe + "]");
}

// Queries with the texts of other records, which are drawn in each step.
TEST_F(MetaRun, ForetellsTextsThatAreDrawn) {
  std::string lines;
  const std::string text(40, 'x');
  for (int i = 0; i < 64; ++i)
    lines += fmt::format(R"({{"query": "what {0}? {1}", "positive": "{0} {1}", "negative": "b {0} {1}"}})", i, text) + "\n";
  const std::string sizes = "hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 2, "
                            "max_position_embeddings: 128, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0";
  for (const char* most : {"3", "20"})
    expect_close(recipe({{"model", "{type: bert, " + sizes + "}"}, {"data.max_length", "96"},
                         {"objective", std::string("{type: ranking, loss_type: multiple_negatives_ranking, "
                                                   "num_negatives: ") + most + "}"},
                         {"data.train", folder_.write("pairs.jsonl", lines).string()}}),
                 0.1);
}

// A run is then as long as its tokens say, and its micro-batches have the rows that there is memory for.
TEST_F(MetaRun, StreamsOfListsHaveTheStepsAndTheRowsOfTheirTexts) {
  std::string lists;
  for (int i = 0; i < 64; ++i)
    lists += R"({"query": "a", "documents": ["b", "c", "d", "e"], "scores": [1, 0, 0, 0]})" "\n";
  const std::string file = folder_.write("lists.jsonl", lists).string();
  const auto made = [&](test::Overrides more) {
    test::Overrides all{{"model", "{type: bert, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
                                  "num_attention_heads: 2}"},
                        {"objective", "{type: ranking}"}, {"data.max_length", "64"}, {"trainer.batch_size", "8"},
                        {"data.train", "[{stream: true, path: " + file + "}]"}};
    all.insert(all.end(), more.begin(), more.end());
    return training::plan_run(recipe(all), {.measure = false});
  };
  const training::RunPlan by_tokens =
      made({{"trainer.steps", "null"}, {"trainer.tokens", std::to_string(10 * 8 * 4 * 64)}});
  EXPECT_EQ(by_tokens.steps, 10);
  EXPECT_EQ(by_tokens.tokens_per_step, 8 * 4 * 64);
  EXPECT_EQ(by_tokens.stream_records, "memory is counted for 4 texts a record, as the first ones have");
  const std::uint64_t of_eight = made({}).memory.peak;
  const training::RunPlan automatic = made({{"trainer.batch_size", "auto"}, {"trainer.step_rows", "16"},
                                            {"trainer.memory_limit", std::to_string(of_eight + (1 << 20))}});
  EXPECT_EQ(automatic.recipe.trainer.batch_size.rows, 8);
}

// Nor one of any model's that is read.
TEST_F(MetaRun, GoesThroughAllModels) {
  std::string ids;
  for (int i = 0; i < 40; ++i)
    ids += fmt::format(R"({{"input_ids": [{}, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}})", 3 + i % 8) + "\n";
  folder_.write("ids.jsonl", ids);
  std::size_t seen = 0;
  for (const char* kind : {"decoders", "gpt2", "models"})
    for (const auto& model : std::filesystem::directory_iterator(test::golden(kind))) {
      if (!std::filesystem::exists(model.path() / "config.json")) continue;
      SCOPED_TRACE(model.path().filename().string());
      Recipe given = recipe({{"data.train", (folder_ / "ids.jsonl").string()}, {"data.max_length", "24"}});
      given.model = {};
      given.model.path = model.path().string();
      given.tokenizer = {};
      const training::MemoryPlan full = plan(given);
      EXPECT_EQ(full.unknown, "");
      EXPECT_GT(full.kept, 0u);
      given.trainer.precision = Precision::bf16, given.trainer.checkpoint_blocks = true, given.adapter.type = "lora";
      EXPECT_EQ(plan(given).unknown, "");
      ++seen;
    }
  EXPECT_GT(seen, 100u);
}

// Nor one of an encoder's, whatever its attention and its head.
TEST_F(MetaRun, GoesThroughEncoders) {
  std::string labelled, squad;
  for (int i = 0; i < 40; ++i) {
    labelled += fmt::format(R"({{"text": "text {}", "label": "l{}"}})", i, i % 3) + "\n";
    squad += fmt::format(R"({{"question": "Who? {0}", "context": "Ada {0} saw", "answers": {{"text": ["Ada"],
        "answer_start": [0]}}}})", i) + "\n";
  }
  std::erase(squad, '\n');
  for (std::size_t at = 0; (at = squad.find("}}{", at)) != std::string::npos;) squad.insert(at + 2, "\n");
  folder_.write("labelled.jsonl", labelled), folder_.write("squad.jsonl", squad + "\n");
  const std::string sizes = "hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2";
  for (const std::string model :
       {"type: electra, embedding_size: 16", "type: albert, embedding_size: 16", "type: mpnet", "type: modernbert",
        "type: deberta-v2, relative_attention: true, pos_att_type: c2p|p2c, position_buckets: 8, "
        "conv_kernel_size: 3"}) {
    SCOPED_TRACE(model);
    for (const auto& [objective, data] : {std::pair{"classification", "labelled.jsonl"},
                                          {"question_answering", "squad.jsonl"}}) {
      const training::MemoryPlan made = plan(recipe({{"model", "{" + model + ", " + sizes + "}"},
                                                     {"objective", objective},
                                                     {"data.max_length", "48"},
                                                     {"data.train", (folder_ / data).string()}}));
      EXPECT_EQ(made.unknown, "") << objective;
      EXPECT_GT(made.kept, 0u) << objective;
    }
  }
}

TEST_F(MetaRun, NothingIsLeftOfIt) {
  const Recipe whole = training::completed_for_preview(recipe({}));
  const training::Inputs inputs = training::load_inputs(whole, "");
  const std::int64_t before = Counted::installed().used;
  training::plan_memory(whole, inputs);
  EXPECT_NEAR(static_cast<double>(Counted::used - before), 0, 1e5);
  inputs.model->each_weight([](const std::string& name, const Weight& weight) {
    EXPECT_FALSE(weight.filled()) << name;
    EXPECT_TRUE(weight.trainable()) << name;
  });
}

// A teacher's hidden states are of one micro-batch at a time.
TEST_F(MetaRun, ForetellsATeacher) {
  const Recipe base = recipe({{"run.folder", (folder_ / "base").string()}});
  train(base, test::quiet_options());
  const std::string teacher = "{type: distillation, alpha: 0.5, teacher: " + base.run.folder + "}";
  expect_close(recipe({{"objective", teacher}, {"trainer.accumulate", "4"}, {"trainer.precision", "bf16"}}));
}

TEST(BatchSize, IsTheLargestThatFits) {
  const auto peak = [](std::int64_t rows) { return static_cast<std::uint64_t>(100 + 10 * rows); };
  const auto rows = [&](std::int64_t step, std::int64_t most, int ranks, std::uint64_t limit) {
    return training::choose_batch(step, most, ranks, limit, peak).batch_size;
  };
  EXPECT_EQ(rows(64, 1000, 1, 10000), 64);
  EXPECT_EQ(rows(64, 1000, 1, 420), 32);
  EXPECT_EQ(rows(64, 1000, 1, 419), 16);
  EXPECT_EQ(rows(60, 1000, 1, 419), 30);
  EXPECT_EQ(rows(64, 1000, 4, 10000), 16);  // four ranks have a micro-batch each
  EXPECT_EQ(rows(64, 20, 1, 10000), 16);    // of 20 rows of data
  EXPECT_EQ(training::choose_batch(64, 1000, 1, 420, peak).accumulate, 2);
  EXPECT_HONE_ERROR(rows(64, 1000, 1, 109), config, "already with 1 row the run takes 110 B, and 109 B are there");
  EXPECT_HONE_ERROR(rows(3, 1000, 2, 1000), config, "3 rows cannot be shared evenly among 2 ranks");
}

TEST_F(MetaRun, AutomaticBatchSizeIsDecidedOnce) {
  const test::Overrides automatic{{"trainer.batch_size", "auto"}, {"trainer.step_rows", "16"}};
  const Recipe wide = training::completed_for_preview(recipe({{"trainer.batch_size", "16"}}));
  const training::Inputs inputs = training::load_inputs(wide, "");
  const std::uint64_t half = training::plan_memory(wide, inputs, {.batch_size = 8}).peak;
  const auto with = [&](const std::string& limit, const std::string& steps, const std::string& folder) {
    test::Overrides all = automatic;
    all.insert(all.end(), {{"trainer.memory_limit", limit}, {"run.folder", (folder_ / folder).string()},
                           {"trainer.steps", steps}, {"optimizer.schedule.warmup_steps", "1"}});
    return recipe(all);
  };
  const auto run = [&](const std::string& limit, const std::string& steps, const std::string& folder) {
    return train(with(limit, steps, folder), test::quiet_options());
  };
  run("100GB", "2", "all");
  const std::string chosen = test::read_text(folder_ / "all/config.yaml");
  EXPECT_NE(chosen.find("batch_size: 16"), std::string::npos) << chosen;
  run(std::to_string(half / 2), "4", "all");  // a resumed run keeps what it has
  EXPECT_NE(test::read_text(folder_ / "all/config.yaml").find("batch_size: 16"), std::string::npos);
  EXPECT_EQ(test::metrics_of(folder_ / "all").back()["step"], 4);
  Trainer in_parts(with(std::to_string(half / 2), "6", "all"), test::quiet_options());
  in_parts.configure_dataloaders();
  in_parts.run();
  EXPECT_NE(test::read_text(folder_ / "all/config.yaml").find("batch_size: 16"), std::string::npos);
  EXPECT_EQ(test::metrics_of(folder_ / "all").back()["step"], 6);
  EXPECT_HONE_ERROR(run("1MB", "2", "none"), config, "trainer.batch_size: auto: already with 1 row");
  EXPECT_HONE_ERROR(recipe({{"trainer.batch_size", "auto"}}), config, "trainer.step_rows: missing");
  EXPECT_HONE_ERROR(recipe({{"trainer.step_rows", "30"}}), config, "expected a multiple of trainer.batch_size 8");
  EXPECT_HONE_ERROR(recipe({{"trainer.memory_limit", "1GB"}}), config, "needs trainer.batch_size auto");
}

TEST_F(MetaRun, StepRowsAreAsGoodAsAccumulate) {
  const Recipe made = training::completed_for_preview(recipe({{"trainer.step_rows", "32"}}));
  EXPECT_EQ(made.trainer.accumulate, 4);
  EXPECT_EQ(made.trainer.rows_per_step(), 32);
  EXPECT_FALSE(made.trainer.step_rows);
}

TEST_F(MetaRun, WeightsAreListedWithWhatTrainsThem) {
  const Recipe muon = training::completed_for_preview(recipe({{"optimizer", "{type: muon}"}}));
  const training::Inputs inputs = training::load_inputs(muon, "");
  std::map<std::string, training::WeightRow> rows;
  for (const training::WeightRow& row : training::weight_table(muon, inputs)) rows[row.name] = row;
  const training::WeightRow& q = rows.at("model.layers.0.self_attn.q_proj.weight");
  const training::WeightRow& norm = rows.at("model.norm.weight");
  EXPECT_EQ(q.group, "muon");
  EXPECT_EQ(norm.group, "adamw");
  EXPECT_EQ(q.optimizer_bytes, q.bytes);          // one momentum
  EXPECT_EQ(norm.optimizer_bytes, 2 * norm.bytes);  // two moments
  EXPECT_GT(q.weight_decay, 0);
  EXPECT_EQ(norm.weight_decay, 0);
  EXPECT_EQ(q.dtype, "F32");
  EXPECT_EQ(q.learning_rate, 1);
}

}  // namespace
}  // namespace hone
