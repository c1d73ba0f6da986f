// Models in fewer bits: as transformers saves them (tools/golden/golden_quantized.py), or quantized as they are read.
#include "hub/quantized_files.h"

#include <gmock/gmock.h>

#include <fstream>

#include "harness/errors.h"
#include "harness/files.h"
#include "hub/folders.h"
#include "nn/unpacking.h"
#include "ops/quantized.h"

namespace hone::test {
namespace {

using testing::HasSubstr;

const std::vector<std::pair<std::string, Quantization>> kKinds = {
    {"nf4", {.type = QuantType::nf4, .double_quant = false}},
    {"nf4-double", {.type = QuantType::nf4}},
    {"fp4", {.type = QuantType::fp4, .double_quant = false}},
    {"int8", {.type = QuantType::int8}}};

fs::path folder(const std::string& name) { return golden("quantized") / name; }

std::unique_ptr<Model> load(const std::string& name, const Quantization& how = {},
                            Precision precision = Precision::fp32) {
  return load_frozen_model(ModelPlace{folder(name), {}}, precision, at::kCPU, how);
}

const nlohmann::json& numbers() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(folder("numbers.json")));
  return all;
}

Tensor logits_of(const Model& model) {
  Batch batch;
  const auto ids = numbers()["ids"].get<std::vector<std::vector<std::int64_t>>>();
  batch.ids_BT = at::stack({at::tensor(ids[0], at::kLong), at::tensor(ids[1], at::kLong)});
  return model.causal_lm()->logits(batch);
}

std::map<std::string, const Weight*> quantized_of(const Model& model) {
  std::map<std::string, const Weight*> all;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (weight.quantized()) all[name] = &weight;
  });
  return all;
}

TEST(QuantizedModel, GivesTheLogitsOfWhatItStandsFor) {
  for (const nlohmann::json& one : numbers()["cases"]) {
    const std::string name = one["name"];
    SCOPED_TRACE(name);
    std::vector<float> values;
    for (const auto& row : one["logits"])
      for (const auto& token : row)
        for (const double x : token) values.push_back(static_cast<float>(x));
    const Tensor expected = at::tensor(values).view({2, 10, 96});
    const auto held = load(name), full = load(name, {.type = QuantType::none});
    EXPECT_EQ(quantized_of(*held).size(), 14u);
    EXPECT_EQ(quantized_of(*full).size(), 0u);
    EXPECT_LT((logits_of(*held) - expected).abs().max().item<double>() / expected.abs().max().item<double>(), 2e-6);
    EXPECT_TRUE(at::equal(logits_of(*held), logits_of(*full)));
  }
}

// The same codes as bitsandbytes', to the bit. Its scales of scales have a mean that is summed in fp32, and its int8 is
// that of weights in fp16.
TEST(QuantizedModel, IsWhatBitsandbytesMakes) {
  for (const auto& [name, how] : kKinds) {
    SCOPED_TRACE(name);
    const auto theirs = load(name), ours = load("whole", how);
    const auto expected = quantized_of(*theirs), made = quantized_of(*ours);
    ASSERT_EQ(made.size(), 14u);
    for (const auto& [weight, held] : made) {
      SCOPED_TRACE(weight);
      const ops::Quantized &a = *held->quantized(), &b = *expected.at(weight)->quantized();
      EXPECT_EQ(a.as, b.as);
      EXPECT_LE((a.codes.to(at::kInt) - b.codes.to(at::kInt)).abs().max().item<int>(), name == "int8" ? 1 : 0);
      EXPECT_TRUE(at::allclose(a.scales, b.scales, name == "int8" ? 5e-4 : how.double_quant ? 1e-5 : 0, 0));
      EXPECT_TRUE(!a.table.defined() || at::allclose(a.table, b.table, 0, 1e-7));
      if (!a.scale_codes.defined()) continue;
      EXPECT_TRUE(at::allclose(a.scale_table, b.scale_table, 0, 1e-7));
      EXPECT_NEAR(a.scale_offset, b.scale_offset, 1e-6);
      EXPECT_LE((a.scale_codes.to(at::kInt) - b.scale_codes.to(at::kInt)).abs().max().item<int>(), 1);
    }
  }
}

TEST(QuantizedModel, TakesLittleMemoryOutsideOfPasses) {
  const auto model = load("whole", {.type = QuantType::nf4}, Precision::bf16);
  const auto there = [&] {
    int count = 0;
    for (const auto& [name, weight] : quantized_of(*model)) count += weight->is_there();
    return count;
  };
  EXPECT_EQ(there(), 0);
  const nn::Held held = nn::held_in_few_bits(*model);
  EXPECT_EQ(held.weights, 14);
  EXPECT_EQ(held.whole, 2u * (64 * 64 * 3 + 64 * 32 * 0 + 64 * 128 * 3) * 2);
  EXPECT_LT(held.bytes, held.whole * 0.6);  // small matrices: tables count
  logits_of(*model);
  EXPECT_EQ(there(), 0);
  // A pass that learns leaves the last block for its backward pass.
  Batch batch;
  batch.ids_BT = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  Pass pass(batch);
  model->forward(batch, pass);
  EXPECT_EQ(there(), 7);
  logits_of(*model);
  EXPECT_EQ(there(), 0);
}

TEST(QuantizedModel, LeavesOutWhatIsSkippedAndRouters) {
  const auto some = load("whole", {.type = QuantType::int8, .skip = {"down_proj", "layers\\.0\\."}});
  for (const auto& [name, weight] : quantized_of(*some)) {
    EXPECT_EQ(name.find("down_proj"), std::string::npos) << name;
    EXPECT_NE(name.find("layers.1."), std::string::npos) << name;
  }
  EXPECT_EQ(quantized_of(*some).size(), 6u);
  EXPECT_HONE_ERROR(load("whole", {.type = QuantType::int8, .skip = {"lm_head"}}), config,
                    "quantization.skip: \"lm_head\" matches no weight that can be quantized");
  const auto skipped = load("nf4", {.skip = {"layers\\.0\\."}});
  EXPECT_EQ(quantized_of(*skipped).size(), 7u);
  EXPECT_TRUE(at::equal(logits_of(*skipped), logits_of(*load("nf4"))));
  const auto experts = load_frozen_model(ModelPlace{golden("experts") / "qwen3-moe", {}}, Precision::fp32, at::kCPU,
                                         {.type = QuantType::nf4});
  for (const auto& [name, weight] : quantized_of(*experts)) EXPECT_FALSE(name.ends_with(".gate.weight")) << name;
  EXPECT_GT(quantized_of(*experts).size(), 14u);
}

TEST(QuantizedModel, RefusesOptionsThatSayNothing) {
  EXPECT_HONE_ERROR(load("nf4", {.type = QuantType::none, .skip = {"q_proj"}}), config, "skip: nothing is quantized");
  EXPECT_HONE_ERROR(load("whole", {.type = QuantType::int8, .double_quant = false}), config, "not for int8");
  EXPECT_HONE_ERROR(load("nf4", {.double_quant = false}), config, "not for stored");
  EXPECT_HONE_ERROR(load("whole", {.type = QuantType::nf4, .skip = {"["}}), config, "skip");
  EXPECT_HONE_ERROR(load("whole", {.type = QuantType::nf4, .skip = {"."}}), config, "leaves no weight to quantize");
  const auto single = load("nf4-double", {.type = QuantType::nf4, .double_quant = false});
  for (const auto& [name, weight] : quantized_of(*single)) EXPECT_FALSE(weight->held_as().double_quant) << name;
}

TEST(QuantizedModel, CanBeQuantizedInAnotherWay) {
  const auto model = load("nf4", {.type = QuantType::int8});
  for (const auto& [name, weight] : quantized_of(*model)) EXPECT_EQ(weight->held_as().type, QuantType::int8);
  const Tensor expected = logits_of(*load("nf4"));
  EXPECT_LT((logits_of(*model) - expected).abs().max().item<double>() / expected.abs().max().item<double>(), 0.05);
}

TEST(QuantizedModel, RefusesWhatHasNoSuchWeights) {
  EXPECT_HONE_ERROR(
      load_frozen_model(ModelPlace{golden("gpt2") / "gpt2", {}}, Precision::fp32, at::kCPU, {.type = QuantType::nf4}),
      config, "no weight of this model of type gpt2 can be quantized");
}

// A copy of a folder of quantized weights, some of its tensors changed.
class DamagedFiles : public Folders {
 protected:
  void SetUp() override {
    for (const auto& entry : fs::directory_iterator(folder("nf4-double")))
      fs::copy(entry.path(), root_ / entry.path().filename());
    text_ = read_text(root_ / "model.safetensors");
  }
  std::string problem_with(const std::string& from, const std::string& to) {
    std::string text = text_;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    write_text(root_ / "model.safetensors", text.replace(at, from.size(), to));
    return error_of([&] { load_frozen_model(ModelPlace{root_, {}}, Precision::fp32); });
  }
  std::string text_;
};

TEST_F(DamagedFiles, AreErrorsThatSayWhere) {
  EXPECT_EQ(problem_with("format", "format"), "no error");
  EXPECT_THAT(problem_with("layers.0.mlp.down_proj.weight.quant_map", "layers.0.mlp.down_proj.weight.quant_mop"),
              HasSubstr("down_proj.weight.quant_mop"));
  EXPECT_THAT(problem_with("\"blocksize\": 64,", "\"blocksize\": 63,"),
              HasSubstr("blocks of 63; expected a power of two"));
  EXPECT_THAT(problem_with("\"blocksize\": 64,", "\"blocksize\": 32,"), HasSubstr("numbers in U8, expected"));
  EXPECT_THAT(problem_with("\"shape\": [64, 64]", "\"shape\": [64, 63]"), HasSubstr("got shape [64, 63]"));
  EXPECT_THAT(problem_with("\"nested_blocksize\": 256", "\"nested_blocksize\": 255"),
              HasSubstr("scales in blocks of 255"));
  EXPECT_THAT(problem_with("\"blocksize\": 64,", "\"blocksize\": \"4\""), HasSubstr("quant_state.bitsandbytes__nf4"));
}

// Numbers are changed where they lie.
TEST_F(DamagedFiles, NumbersThatCannotBeAreRefused) {
  const auto with = [&](const std::string& kind, const std::string& part, float number, std::uint8_t byte) {
    for (const auto& entry : fs::directory_iterator(folder(kind)))
      fs::copy(entry.path(), root_ / entry.path().filename(), fs::copy_options::overwrite_existing);
    const Safetensors file(root_ / "model.safetensors");
    for (const TensorInfo& tensor : file.tensors()) {
      if (!tensor.name.ends_with(part)) continue;
      const std::string text = read_text(root_ / "model.safetensors");
      std::uint64_t head = 0;
      std::memcpy(&head, text.data(), sizeof head);
      std::string changed = text;
      if (tensor.dtype == "U8")
        changed[8 + head + tensor.begin] = static_cast<char>(byte);
      else
        std::memcpy(changed.data() + 8 + head + tensor.begin, &number, sizeof number);
      write_text(root_ / "model.safetensors", changed);
      break;
    }
    return error_of([&] { load_frozen_model(ModelPlace{root_, {}}, Precision::fp32); });
  };
  EXPECT_THAT(with("nf4", ".weight.absmax", NAN, 0), HasSubstr("infinite or not a number"));
  EXPECT_THAT(with("nf4-double", ".nested_quant_map", INFINITY, 0), HasSubstr("infinite or not a number"));
  EXPECT_THAT(with("nf4", ".quant_map", -16.0f, 0), HasSubstr("not from -1 to 1"));
  EXPECT_THAT(with("int8", ".SCB", -INFINITY, 0), HasSubstr("infinite or not a number"));
  EXPECT_THAT(with("int8", ".weight_format", 0, 2), HasSubstr("another order than by rows"));
  EXPECT_EQ(with("int8", ".weight_format", 0, 0), "no error");
}

TEST_F(DamagedFiles, OtherMethodsAreRefused) {
  std::string config = read_text(root_ / "config.json");
  config.replace(config.find("\"bitsandbytes\""), 14, "\"hqq\"");
  write_text(root_ / "config.json", config);
  EXPECT_HONE_ERROR(load_frozen_model(ModelPlace{root_, {}}, Precision::fp32), config,
                    "quantized by hqq; expected a model in fp32, bf16 or fp16");
}

}  // namespace
}  // namespace hone::test
