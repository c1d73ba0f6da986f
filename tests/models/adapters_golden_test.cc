// LoRA against PEFT (tools/golden/golden_lora.py): its files are read, what they compute is PEFT's, and they are
// written as they came.
#include "hone/adapter.h"

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "hub/adapter_files.h"
#include "models/adapter_golden.h"
#include "models/golden_checks.h"
#include "nn/lora.h"
#include "ops/log_probs.h"

namespace hone::test {
namespace {

class LoraGolden : public ::testing::TestWithParam<GoldenParam> {
 protected:
  LoraGolden() : level_(GetParam().level()), golden_(GetParam().name), model_(golden_.model()) {}
  ops::LevelScope level_;
  AdapterGolden golden_;
  std::unique_ptr<CausalLm> model_;
};

TEST_P(LoraGolden, LogitsArePefts) {
  expect_close(golden_.logits(*model_), golden_["logits"], 1e-5 * largest(golden_["logits"]), "logits");
}

TEST_P(LoraGolden, TheBaseBelowIsTheBase) {
  if (!golden_.config.lora.modules_to_save.empty()) GTEST_SKIP() << "its head is another one";
  EXPECT_TRUE(at::equal(golden_.logits(*model_, ""), golden_.logits(*golden_.base.model())));
}

// Gradients as PEFT's files name the weights: A of stacked experts is one tensor there.
TEST_P(LoraGolden, GradientsArePefts) {
  const Batch batch = golden_.base.batch();
  Pass pass(batch);
  pass.training = golden_.trains();
  const Tensor loss = mean_loss(*model_, batch, pass);
  expect_close(loss.detach().view({1}), golden_["loss"].view({1}), 1e-5, "loss");
  loss.backward();
  golden_.expect_gradients(*model_, 1e-5);
  std::size_t others = 0;
  model_->each_weight(
      [&](const std::string&, Weight& weight) { others += !weight.trainable() && weight.grad().defined(); });
  EXPECT_EQ(others, 0u);
}

TEST_P(LoraGolden, TenStepsArePefts) {
  const double ratio = GetParam().name.starts_with("plus") ? 8 : 1, rate = 1e-3, of_tables = 5e-3;
  each_adapter(*model_, kDefaultAdapter, [&](const std::string&, Weight& weight, Adapter& adapter) {
    auto* lora = dynamic_cast<nn::Lora*>(&adapter);
    if (!lora) return;  // rows of tokens
    lora->b().set_learning_rate_scale(ratio);
    if (ratio == 1 || weight.use_as() != WeightUse::table) return;
    for (Weight* factor : {&lora->a(), &lora->b()}) factor->set_learning_rate_scale(of_tables / rate);
  });
  const Batch batch = golden_.base.batch();
  expect_ten_golden_steps(
      *model_, batch, golden_["ten_losses"], [&](Pass& pass) { return mean_loss(*model_, batch, pass); },
      golden_.trains());
}

TEST_P(LoraGolden, MergedIsTheAdapter) {
  if (GetParam().name == "tied") {
    EXPECT_HONE_ERROR(MergedAdapter merged(*model_), config, "model.embed_tokens: the head uses this table, too");
    return;
  }
  const Tensor with = golden_.logits(*model_), below = golden_.logits(*model_, "");
  MergedAdapter merged(*model_);
  expect_close(golden_.logits(*model_, ""), with, 1e-5 * largest(with), "merged");
  expect_close(golden_.logits(*model_, ""), golden_["merged_logits"], 1e-5 * largest(with), "PEFT's merged");
  merged.unmerge();
  EXPECT_TRUE(at::equal(golden_.logits(*model_, ""), below));
  EXPECT_TRUE(at::equal(golden_.logits(*model_), with));
  unwrap_adapter(*model_);
  EXPECT_FALSE(model_->has_adapters());
  expect_close(golden_.logits(*model_), with, 1e-5 * largest(with), "unwrapped");
}

TEST_P(LoraGolden, FilesComeOutAsTheyWentIn) {
  const TempFolder folder;
  hub::save_adapter_folder(folder / "out", *model_, golden_.config, {}, {});
  const auto before = read_all(golden_.folder / "adapter_model.safetensors"),
             after = read_all(folder / "out" / "adapter_model.safetensors");
  std::size_t own = 0;
  for (const auto& [name, tensor] : before) {
    if (name.ends_with(".base_layer.weight")) continue;  // PEFT keeps a copy of the base's table
    ++own;
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_TRUE(at::equal(after.at(name), tensor)) << name;
  }
  EXPECT_EQ(after.size(), own);
  const auto json = [](const std::filesystem::path& path) {
    std::ifstream file(path / "adapter_config.json");
    return nlohmann::json::parse(file);
  };
  const nlohmann::json was = json(golden_.folder), is = json(folder / "out");
  for (const char* key : {"r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern",
                          "fan_in_fan_out", "task_type", "bias", "peft_type", "lora_dropout"})
    EXPECT_EQ(was.at(key), is.at(key)) << key;
  const nlohmann::json tokens = was.at("trainable_token_indices");
  EXPECT_EQ(is.value("trainable_token_indices", nlohmann::json()), tokens.is_object() ? tokens.front() : tokens);
  EXPECT_EQ(is.value("ensure_weight_tying", false), was.value("ensure_weight_tying", false));
  // Once more through our own reader.
  auto again = golden_.base.model();
  load_adapter(*again, folder / "out");
  EXPECT_TRUE(at::equal(golden_.logits(*again), golden_.logits(*model_)));
}

std::vector<GoldenParam> adapter_params() {
  std::vector<std::string> names = golden_names(kAdapters);
  std::erase_if(names, std::not_fn(goes_with_its_base));
  return golden_params(names);
}
INSTANTIATE_TEST_SUITE_P(All, LoraGolden, ::testing::ValuesIn(adapter_params()), print_golden);

class Lora : public ::testing::Test {
 protected:
  static std::unique_ptr<CausalLm> base(const std::string& name = "llama") { return Golden(name).model(); }
  static Tensor logits(const CausalLm& model, const Batch& batch, const std::string& adapter = kDefaultAdapter) {
    const at::NoGradGuard no_grad;
    Pass pass(batch);
    pass.adapter = adapter;
    return model.head().logits(model.forward(batch, pass).hidden_BTD, pass);
  }
  static LoraConfig config(std::vector<std::string> targets = {"all-linear"}) {
    LoraConfig made;
    made.rank = 4, made.targets = std::move(targets);
    return made;
  }
  Golden golden_{"llama"};
};

// The same singular values as PEFT's, whatever their signs; the base below stays what it was.
class LoraFromWeights : public Lora, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Starts, LoraFromWeights, testing::Values("pissa", "olora"));

TEST_P(LoraFromWeights, IsPefts) {
  const AdapterGolden golden(GetParam());
  auto model = golden.base.model();
  LoraConfig lora = config({"q_proj", "up_proj"});
  lora.alpha = 8, lora.init = GetParam();
  apply_lora(*model, lora, 1);
  const auto file = read_all(golden.folder / "adapter_model.safetensors");
  each_adapter(*model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter& adapter) {
    auto& own = dynamic_cast<nn::Lora&>(adapter);
    const std::string name = hub::kPeftPrefix + module;
    const Tensor expected = file.at(name + ".lora_B.weight").matmul(file.at(name + ".lora_A.weight"));
    expect_close(own.b().use().matmul(own.a().use()).detach(), expected, 1e-5, module);
  });
  EXPECT_TRUE(at::equal(logits(*model, golden.base.batch(), ""), logits(*golden.base.model(), golden.base.batch())));
  expect_close(golden.logits(*model), golden["logits"], 1e-5 * largest(golden["logits"]), "logits");
  const Batch batch = golden.base.batch();
  expect_ten_golden_steps(
      *model, batch, golden["ten_losses"], [&](Pass& pass) { return mean_loss(*model, batch, pass); }, false);
  // As a file it has twice the rank and goes with the base as it was.
  const TempFolder folder;
  hub::save_adapter_folder(folder / "out", *model, {lora, ""}, {}, {});
  auto again = golden.base.model();
  load_adapter(*again, folder / "out");
  expect_close(logits(*again, batch), logits(*model, batch), 1e-5, "from the file");
}

TEST_F(Lora, AFreshAdapterIsTheBaseBitForBit) {
  for (const bool dora : {false, true})
    for (const char* init : {"default", "gaussian"})
      for (const auto& targets :
           {std::vector<std::string>{"all-linear"}, {"embed_tokens", "lm_head"}, {".*layers\\.1\\..*"}}) {
        auto model = base();
        const Tensor before = logits(*model, golden_.batch());
        LoraConfig lora = config(targets);
        lora.dora = dora, lora.init = init, lora.rslora = true;
        apply_lora(*model, lora, 1);
        if (dora)  // magnitudes over norms are 1 but for rounding
          expect_close(logits(*model, golden_.batch()), before, 1e-5 * largest(before), init);
        else
          EXPECT_TRUE(at::equal(logits(*model, golden_.batch()), before)) << init;
        remove_adapter(*model);
        EXPECT_TRUE(at::equal(logits(*model, golden_.batch()), before));
      }
}

TEST_F(Lora, TheStartIsAFunctionOfSeedAndName) {
  const auto start = [&](std::uint64_t seed) {
    auto model = base();
    apply_lora(*model, config(), seed);
    return split_adapter(*model);
  };
  const auto one = start(1), same = start(1), other = start(2);
  EXPECT_EQ(one.size(), 28u);  // A and B of seven products in two layers
  for (const auto& [name, value] : one) {
    EXPECT_TRUE(at::equal(value, same.at(name))) << name;
    EXPECT_EQ(at::equal(value, other.at(name)), name.find("lora_B") != std::string::npos) << name;
  }
  const Tensor a = one.at("model.layers.0.mlp.down_proj.lora_A.weight");
  EXPECT_LE(largest(a), 1 / std::sqrt(40.0));
  EXPECT_GT(largest(a), 0.9 / std::sqrt(40.0));
}

TEST_F(Lora, SeveralAdaptersAreSwitched) {
  auto model = base();
  const Tensor plain = logits(*model, golden_.batch());
  load_adapter(*model, kAdapters / "linear", {.name = "linear"});
  load_adapter(*model, kAdapters / "plus", {.name = "plus"});
  const AdapterGolden linear("linear"), plus("plus");
  expect_close(linear.logits(*model, "linear"), linear["logits"], 1e-5 * largest(plain), "linear");
  expect_close(plus.logits(*model, "plus"), plus["logits"], 1e-5 * largest(plain), "plus");
  EXPECT_TRUE(at::equal(logits(*model, golden_.batch(), ""), plain));
  remove_adapter(*model, "linear");
  expect_close(plus.logits(*model, "plus"), plus["logits"], 1e-5 * largest(plain), "plus alone");
}

TEST_F(Lora, WhatCannotBeIsRefused) {
  const auto refused = [&](const LoraConfig& lora, const std::string& part) {
    auto model = base();
    EXPECT_HONE_ERROR(apply_lora(*model, lora, 1), config, part);
    EXPECT_FALSE(model->has_adapters());
  };
  refused(config({"q_prj"}), "adapter.targets: \"q_prj\": no module of the model has such a name");
  refused(config({"q_prj"}), "did you mean q_proj?");
  refused(config({"norm"}), "model.norm is neither a product nor a table");
  LoraConfig lora = config();
  lora.rank = 25;
  refused(lora, "adapter.rank: got 25, expected at most");
  lora = config(), lora.rank_pattern = {{"v_prj", 2}};
  refused(lora, "adapter.rank_pattern: \"v_prj\"");
  lora = config(), lora.exclude = {"x_proj"};
  refused(lora, "adapter.exclude: \"x_proj\"");
  lora = config(), lora.modules_to_save = {"heads"};
  refused(lora, "adapter.modules_to_save: \"heads\"");
}

TEST_F(Lora, AnAdapterForAnotherBaseIsRefused) {
  auto narrow = Golden("llama-head-dim").model();
  EXPECT_HONE_ERROR(load_adapter(*narrow, kAdapters / "linear"), checkpoint, "got shape");
  auto other = Golden("gpt2", "tests/golden/gpt2").model();
  EXPECT_HONE_ERROR(load_adapter(*other, kAdapters / "linear"), checkpoint,
                    "the model has no model.layers.0.mlp.down_proj");
}

// Its configuration says what is not in its file.
TEST_F(Lora, AnAdapterThatContradictsItselfIsRefused) {
  const TempFolder folder;
  const auto refused = [&](const std::string& key, const nlohmann::json& value, const std::string& part) {
    std::filesystem::copy(kAdapters / "linear", folder / key);
    std::ifstream source(folder / key / "adapter_config.json");
    nlohmann::json config = nlohmann::json::parse(source);
    config[key] = value;
    std::ofstream(folder / key / "adapter_config.json") << config.dump();
    auto model = base();
    EXPECT_HONE_ERROR(load_adapter(*model, folder / key), checkpoint, part);
    EXPECT_FALSE(model->has_adapters());
  };
  refused("r", 8, "but adapter_config.json says 8");
  refused("target_modules", {"q_proj", "embed_tokens"}, "model.embed_tokens: adapter_config.json has it among its");
  refused("modules_to_save", {"norm"}, "norm.weight: adapter_config.json has it among its modules_to_save");
  refused("init_lora_weights", "olora", "goes with a base model that it changed");
}

// Rows of tokens begin as those of the table, are trained for look-ups and for a head that is tied, and each other row
// stays the base's.
TEST_F(Lora, RowsOfTokensBeginAsTheTables) {
  for (const char* name : {"llama", "llama-tied"}) {
    auto model = base(name);
    const Batch batch = Golden(name).batch();
    const Tensor before = logits(*model, batch);
    LoraConfig lora = config({"q_proj"});
    lora.trainable_token_indices = {"7", "3"};
    const LoraReport report = apply_lora(*model, lora, 1);
    expect_close(logits(*model, batch), before, 1e-6 * largest(before), name);
    const std::map<std::string, Tensor> made = split_adapter(*model);
    const Tensor rows = made.at("model.embed_tokens.token_adapter.trainable_tokens_delta");
    EXPECT_EQ(rows.size(0), 2);
    std::int64_t parameters = 0;
    for (const auto& [own, value] : made) parameters += value.numel();
    EXPECT_EQ(report.parameters, parameters);
  }
}

// Losses that hold no logits, and log-probabilities, are those of the logits.
TEST_F(Lora, RowsOfTokensAreInEachLoss) {
  const AdapterGolden golden("tokens-tied");
  auto model = golden.model();
  const Batch batch = golden.base.batch();
  Pass pass(batch);
  const Tensor hidden = model->forward(batch, pass).hidden_BTD;
  const Tensor labels = golden.base["labels"], flat = labels.flatten(), is_there = flat != -100;
  const Tensor all = at::log_softmax(model->head().logits(hidden, pass), -1).flatten(0, 1);
  const Tensor expected = all.gather(1, flat.clamp_min(0).unsqueeze(1)).squeeze(1) * is_there;
  expect_close(model->head().log_probs(hidden, labels, pass, false).log_probs_N, expected, 1e-5, "log-probabilities");
  expect_close(model->head().cross_entropy(hidden, labels, {}, pass).view({1}), -expected.sum().view({1}), 1e-3,
               "cross entropy");
}

TEST_F(Lora, RowsOfTokensThatCannotBeAreRefused) {
  const auto refused = [&](const std::vector<std::string>& tokens, const std::string& part, LoraConfig lora) {
    auto model = base();
    lora.trainable_token_indices = tokens;
    EXPECT_HONE_ERROR(apply_lora(*model, lora, 1), config, part);
    EXPECT_FALSE(model->has_adapters());
  };
  refused({"80"}, "adapter.trainable_token_indices: got 80, expected 0 to 79", config());
  refused({"-1"}, "got -1, expected 0 to 79", config());
  refused({"3", "4", "3"}, "3 is there twice", config());
  refused({"<x>"}, "got \"<x>\", expected the number of a token", config());
  refused({"3"}, "model.embed_tokens is among adapter.targets, too", config({"q_proj", "embed_tokens"}));
  LoraConfig saved = config({"q_proj"});
  saved.modules_to_save = {"embed_tokens"};
  refused({"3"}, "model.embed_tokens is among adapter.modules_to_save, too", saved);
}

TEST_F(Lora, AFileOfRowsThatContradictsItselfIsRefused) {
  const auto refused = [&](const nlohmann::json& tokens, const std::string& part) {
    const TempFolder folder;
    std::filesystem::copy(kAdapters / "tokens", folder / "made");
    nlohmann::json config = nlohmann::json::parse(std::ifstream(kAdapters / "tokens" / "adapter_config.json"));
    config["trainable_token_indices"] = tokens;
    std::ofstream(folder / "made" / "adapter_config.json") << config.dump();
    auto model = base();
    EXPECT_HONE_ERROR(load_adapter(*model, folder / "made"), checkpoint, part);
    EXPECT_FALSE(model->has_adapters());
  };
  refused({3, 7}, "trainable_tokens_delta: got shape");
  refused({3, 7, 80}, "got 80, expected 0 to 79");
  refused({{"embed_tokens", {3, 7, 12}}, {"lm_head", {3}}}, "expected numbers of tokens, for one table");
  refused("all", "expected numbers of tokens");
}

// A file cannot hold a copy of its own of a table that makes the outputs, too.
TEST_F(Lora, ATiedTableIsNotTrainedWhole) {
  auto tied = base("llama-tied");
  LoraConfig lora = config({"q_proj"});
  lora.modules_to_save = {"embed_tokens"};
  EXPECT_HONE_ERROR(apply_lora(*tied, lora, 1), config, "the head uses this table, too");
}

// What PEFT trains of such a model is a copy for look-ups alone.
// PEFT's conversion for transformers 5 says rank and alpha of stacked experts by patterns of their parameters' names.
TEST_F(Lora, PatternsOfStackedExpertsAreRead) {
  const AdapterGolden golden("experts");
  const TempFolder folder;
  std::filesystem::copy(golden.folder, folder / "made");
  nlohmann::json config = nlohmann::json::parse(std::ifstream(golden.folder / "adapter_config.json"));
  const int rank = config["r"], alpha = config["lora_alpha"];
  for (const char* pattern : {".*\\.gate_up_proj", ".*\\.experts\\.down_proj", "q_proj"})
    config["rank_pattern"][pattern] = rank, config["alpha_pattern"][pattern] = alpha;
  config["r"] = 1, config["lora_alpha"] = 3;
  std::ofstream(folder / "made" / "adapter_config.json") << config.dump();
  auto model = golden.base.model();
  load_adapter(*model, folder / "made");
  expect_close(golden.logits(*model), golden["logits"], 1e-5 * largest(golden["logits"]), "logits");
}

// What PEFT says of classifiers, and of how factors began, is no reason to refuse a file.
TEST_F(Lora, NamesThatTheModelHasNotAndStartsAreNoObstacle) {
  const TempFolder folder;
  std::filesystem::copy(kAdapters / "linear", folder / "made");
  nlohmann::json config = nlohmann::json::parse(std::ifstream(kAdapters / "linear" / "adapter_config.json"));
  config["modules_to_save"] = {"score"}, config["target_modules"] = "(?<!x_)q_proj|v_proj";
  config["init_lora_weights"] = "eva", config["eva_config"] = {{"rho", 2}};
  std::ofstream(folder / "made" / "adapter_config.json") << config.dump();
  auto model = base();
  EXPECT_NO_THROW(load_adapter(*model, folder / "made"));
  EXPECT_TRUE(model->has_adapters());
  config["rank_pattern"] = {{"(?<!x_)q_proj", 4}};
  std::ofstream(folder / "made" / "adapter_config.json") << config.dump();
  EXPECT_HONE_ERROR(load_adapter(*base(), folder / "made"), checkpoint, "rank_pattern: got \"(?<!x_)q_proj\"");
}

TEST_F(Lora, AFileWithACopyOfATiedTableIsRefused) {
  const TempFolder folder;
  auto tied = base("llama-tied");
  config::Node untied = tied->hf_config();
  untied.at_or_add("tie_word_embeddings") = config::Node::scalar("false", false, {});
  const auto free = build_model(untied, "untied");
  init_weights(*free, 1, Precision::fp32);
  LoraConfig lora = config({"q_proj"});
  lora.modules_to_save = {"embed_tokens"};
  apply_lora(*free, lora, 1);
  hub::save_adapter_folder(folder / "made", *free, {lora, "base"}, {}, {});
  EXPECT_HONE_ERROR(load_adapter(*tied, folder / "made"), checkpoint, "has trained a copy of it: for look-ups alone");
}

TEST_F(Lora, WhatIsNotFiniteIsRefused) {
  const TempFolder folder;
  auto model = base();
  const LoraConfig lora = config({"v_proj"});
  apply_lora(*model, lora, 1);
  each_adapter(*model, kDefaultAdapter, [](const std::string&, Weight&, Adapter& one) {
    Weight& b = dynamic_cast<nn::Lora&>(one).b();
    b.fill(at::full_like(b.use(), std::nan("")));
  });
  hub::save_adapter_folder(folder / "made", *model, {lora, "base"}, {}, {});
  auto other = base();
  EXPECT_HONE_ERROR(load_adapter(*other, folder / "made"), checkpoint, "lora_B.weight: not all of it is finite");
}

// As PEFT takes them: all names that end so.
TEST_F(Lora, ModulesToSaveAreEndsOfNames) {
  auto model = base();
  LoraConfig lora = config({"q_proj"});
  lora.modules_to_save = {"norm"};
  const LoraReport report = plan_lora(*model, lora);
  EXPECT_NE(std::find(report.saved.begin(), report.saved.end(), "model.layers.0.input_layernorm"), report.saved.end());
  EXPECT_NE(std::find(report.saved.begin(), report.saved.end(), "model.norm"), report.saved.end());
}

// Which of a file's factors count, and how much, is for adapter_config.json to say
// (tools/golden/golden_lora_selection.py).
TEST_F(Lora, TheConfigurationSelectsAsPeftDoes) {
  using nlohmann::ordered_json;
  const ordered_json cases = ordered_json::parse(std::ifstream("tests/golden/train/adapter_selection.json"));
  const ordered_json own = ordered_json::parse(std::ifstream(kAdapters / "linear" / "adapter_config.json"));
  ASSERT_GE(cases.size(), 20u);
  for (const ordered_json& one : cases) {
    SCOPED_TRACE(one.dump());
    const TempFolder folder;
    std::filesystem::copy(kAdapters / "linear", folder / "made");
    ordered_json config = own;
    for (const auto& [key, value] : one["config"].items()) config[key] = value;
    std::ofstream(folder / "made" / "adapter_config.json") << config.dump();
    auto model = base();
    if (one["scaling"].empty()) {
      EXPECT_HONE_ERROR(load_adapter(*model, folder / "made"), checkpoint, "selects none of its modules");
      continue;
    }
    const auto found = load_adapter(*model, folder / "made").first;
    std::map<std::string, double> scaling;
    each_adapter(*model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter& adapter) {
      scaling[module] = dynamic_cast<nn::Lora&>(adapter).options().scale;
    });
    EXPECT_EQ(scaling, (one["scaling"].get<std::map<std::string, double>>()));
    // What is written of it means the same once more.
    hub::save_adapter_folder(folder / "again", *model, {found, ""}, {}, {});
    auto other = base();
    load_adapter(*other, folder / "again");
    std::map<std::string, double> again;
    each_adapter(*other, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter& adapter) {
      again[module] = dynamic_cast<nn::Lora&>(adapter).options().scale;
    });
    EXPECT_EQ(again, scaling);
  }
}

}  // namespace
}  // namespace hone::test
