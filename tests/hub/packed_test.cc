// Weights in FP8, compressed-tensors, GPTQ and AWQ against what stands in tools/golden/golden_packed.py, and what is
// not such a weight.
#include <gmock/gmock.h>

#include <cmath>

#include "hone/hub.h"
#include "hub/copy_weights.h"
#include "hub/model_tensors.h"
#include "hub/packed/code_numbers.h"
#include "hub/packed/find_packed.h"
#include "hub/packed/quantization_config.h"
#include "hub/packed_files.h"
#include "tensor/compare.h"
#include "train/save_types.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kFolders = {"fp8",
                                           "fp8-bf16-scales",
                                           "fp8-powers",
                                           "fp8-one-scale",
                                           "fp8-experts",
                                           "fp8-stacked",
                                           "fp8-ragged",
                                           "ct-float-tensor",
                                           "ct-float-channel",
                                           "ct-float-block",
                                           "ct-int",
                                           "ct-int-zeros",
                                           "ct-words",
                                           "ct-words-zeros",
                                           "ct-words-8",
                                           "ct-mixed",
                                           "ct-microscaled",
                                           "gptq",
                                           "gptq-order",
                                           "gptq-8-second",
                                           "awq"};

class EveryPackedFolder : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Packed, EveryPackedFolder, testing::ValuesIn(kFolders), [](const auto& info) {
  std::string name;
  for (const char c : info.param) name += c == '-' ? '_' : c;
  return name;
});

TEST_P(EveryPackedFolder, IsReadToTheBit) {
  const hub::ModelTensors tensors(packed_folder(GetParam()));
  const std::map<std::string, Tensor> whole = whole_weights(GetParam());
  ASSERT_FALSE(whole.empty());
  for (const auto& [name, expected] : whole) {
    SCOPED_TRACE(name);
    const hub::Packed* packed = tensors.packed(name);
    ASSERT_NE(packed, nullptr);
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      EXPECT_TRUE(same_bits(packed->read(type), expected.to(type))) << type;
  }
}

TEST_P(EveryPackedFolder, GivesTheSameLogits) {
  const fs::path folder = packed_folder(GetParam());
  const SafetensorsSet expected(folder / "golden.safetensors");
  Batch batch;
  batch.ids_BT = read_whole(expected.tensors().at("input_ids"), at::kLong);
  const Tensor logits_BTV = read_whole(expected.tensors().at("logits"), at::kFloat);
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    const auto model = load_model(folder.string(), precision);
    EXPECT_EQ(difference(model->causal_lm()->logits(batch), logits_BTV, 2e-5 * largest(logits_BTV)), "");
  }
}

TEST_P(EveryPackedFolder, IsReadInParts) {
  const hub::ModelTensors tensors(packed_folder(GetParam()));
  for (const auto& [name, whole] : whole_weights(GetParam())) {
    SCOPED_TRACE(name);
    const hub::Packed& packed = *tensors.packed(name);
    const std::int64_t rows = whole.size(0), columns = whole.size(1), all = whole.numel();
    for (const auto& [begin, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {0, all / 2}, {all / 2, all - all / 2}, {5 * columns, 2 * columns}, {3 * columns - 1, 2}, {all, 0}}) {
      Weight weight({rows, columns}, Init{}, true);
      Layout layout = weight.layout();
      layout.begin = begin, layout.count = count;
      weight.set_layout(layout);
      EXPECT_TRUE(same_bits(packed.read(weight, at::kFloat), whole.flatten().narrow(0, begin, count))) << begin;
    }
    Weight some({rows, columns}, Init{}, true);
    some.set_layout({.global_shape = {rows, columns}, .shape = {rows, 3}, .offset = {0, 4}, .axes = {"", "some"}});
    EXPECT_TRUE(same_bits(packed.read(some, at::kBFloat16), whole.narrow(1, 4, 3).contiguous().to(at::kBFloat16)));
  }
}

const std::string kFp8 = R"({"quant_method": "fp8", "weight_block_size": [2, 4]})";

TEST_F(PackedFiles, OfFp8AreErrorsWhereTheyAreNotWhole) {
  const Entry codes{"a.weight", "F8_E4M3", {3, 8}, 24}, scales{"a.weight_scale_inv", "F32", {2, 2}, 16};
  const std::string file = (root_ / "model.safetensors").string() + ": ";
  EXPECT_EQ(error_with(kFp8, {codes, scales}), "no error");
  EXPECT_THAT(error_with(kFp8, {codes}), HasSubstr(file + "a.weight: a.weight_scale_inv is missing, without which it"));
  EXPECT_THAT(error_with(kFp8, {scales}),
              HasSubstr(file + "a.weight_scale_inv: a.weight is missing, without which it"));
  EXPECT_THAT(error_with(kFp8, {{"a.weight", "BF16", {3, 8}, 48}, scales}),
              HasSubstr(file + "a.weight: got dtype BF16, expected F8_E4M3 or F8_E5M2"));
  EXPECT_THAT(error_with(kFp8, {{"a.weight", "F8_E4M3FNUZ", {3, 8}, 24}, scales}),
              HasSubstr(file + "a.weight: got dtype F8_E4M3FNUZ, expected F8_E4M3 or F8_E5M2"));
  EXPECT_THAT(error_with(kFp8, {codes, {"a.weight_scale_inv", "F32", {2, 1}, 8}}),
              HasSubstr(file + "a.weight_scale_inv: got shape [2, 1], expected [2, 2] for a.weight of shape [3, 8]"));
  EXPECT_THAT(error_with(kFp8, {{"a.weight", "F8_E4M3", {24}, 24}, scales}),
              HasSubstr(file + "a.weight: got shape [24], expected a matrix"));
  EXPECT_EQ(error_with(R"({"quant_method": "fp8", "weight_block_size": null})",
                       {codes, {"a.weight_scale_inv", "F32", {}, 4}, {"a.activation_scale", "F32", {}, 4}}),
            "no error");
  EXPECT_EQ(error_with(kFp8, {codes, {"a.weight_scale", "F32", {1}, 4}}), "no error");  // AutoFP8's
  const std::string kinds = error_with(kFp8, {codes, {"a.weight_scale_inv", "I32", {2, 2}, 16}});
  EXPECT_EQ(kinds, "no error");  // said when it is read
  EXPECT_THAT(error_of([&] { hub::ModelTensors(root_).packed("a.weight")->read(at::kFloat); }),
              HasSubstr("a.weight_scale_inv: got dtype I32, expected scales in F32, BF16, F16, F8_E8M0 or U8"));
}

TEST_F(PackedFiles, OfTheTextsHalfHaveItsNames) {
  const std::string layer = "layers.0.mlp.down_proj.weight", own = "language_model.model." + layer;
  EXPECT_EQ(error_with(kFp8, {{own, "F8_E4M3", {3, 8}, 24},
                              {own + "_scale_inv", "F32", {2, 2}, 16},
                              {"vision_tower.a.weight", "F8_E4M3", {3, 8}, 24},
                              {"vision_tower.a.weight_scale_inv", "F32", {2, 2}, 16}}),
            "no error");
  const hub::ModelTensors tensors(root_);
  ASSERT_NE(tensors.packed("model." + layer), nullptr);
  EXPECT_EQ(tensors.all().size(), 1u);
  EXPECT_EQ(tensors.left_out(), std::vector<std::string>{"vision_tower.a.weight"});
}

TEST_F(PackedFiles, OfOtherMethodsAreErrorsWhereTheyAreNotWhole) {
  const auto compressed = [](const std::string& format, const std::string& weights) {
    return R"({"quant_method": "compressed-tensors", "format": ")" + format +
           R"(", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {)" + weights + "}}}}";
  };
  const std::string words = compressed("pack-quantized", R"("num_bits": 4, "type": "int", "group_size": 8)");
  const std::string bytes = compressed("int-quantized", R"("num_bits": 8, "strategy": "channel", "symmetric": false)");
  const Entry packed{"a.weight_packed", "I32", {3, 2}, 24}, scales{"a.weight_scale", "F32", {3, 2}, 24};
  EXPECT_THAT(error_with(words, {packed, scales}), HasSubstr("a.weight_packed: a.weight_shape is missing"));
  EXPECT_THAT(error_with(words, {packed, scales, {"a.weight_shape", "I64", {2}, 16}}),
              HasSubstr("a.weight_packed: got shape [3, 2], which does not hold [0, 0] codes of 4 bits"));
  EXPECT_THAT(error_with(words, {scales}), HasSubstr("a.weight_scale: a.weight is missing"));
  EXPECT_THAT(error_with(bytes, {{"a.weight", "I8", {3, 8}, 24}}), HasSubstr("a.weight: a.weight_scale is missing"));
  const Entry codes{"a.weight", "I8", {3, 8}, 24}, channel{"a.weight_scale", "F32", {3, 1}, 12};
  EXPECT_THAT(error_with(bytes, {codes, channel}), HasSubstr("a.weight: a.weight_zero_point is missing"));
  EXPECT_THAT(error_with(bytes, {codes, channel, {"a.weight_zero_point", "I8", {1}, 1}}),
              HasSubstr("a.weight_zero_point: got I8 of shape [1], expected I8 of shape [3, 1]"));
  EXPECT_EQ(
      error_with(bytes, {codes, channel, {"a.weight_zero_point", "I8", {3, 1}, 3}, {"a.input_scale", "F32", {1}, 4}}),
      "no error");
  const std::string gptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 8})";
  const Entry qweight{"a.qweight", "I32", {2, 8}, 64}, qscales{"a.scales", "F16", {2, 8}, 32};
  EXPECT_THAT(error_with(gptq, {qweight, qscales}), HasSubstr("a.qweight: a.qzeros is missing"));
  EXPECT_THAT(error_with(gptq, {qscales}), HasSubstr("a.scales: a.qweight is missing"));
  const Entry qzeros{"a.qzeros", "I32", {2, 1}, 8};
  EXPECT_EQ(error_with(gptq, {qweight, qscales, qzeros}), "no error");
  EXPECT_THAT(error_with(gptq, {qweight, qscales, qzeros, {"a.g_idx", "I32", {8}, 32}}),
              HasSubstr("a.g_idx: got I32 of shape [8], expected I32 of shape [16]"));
  EXPECT_THAT(error_with(gptq, {qweight, qscales, qzeros, {"a.weight", "F16", {8, 16}, 256}}),
              HasSubstr("a.qweight: a.weight is there twice: by itself, too"));
}

TEST_F(PackedFiles, NumbersThatAreNoneAreErrors) {
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const auto error = [&](const std::string& tensor) {
    return error_of([&] { hub::ModelTensors(root_).packed(tensor)->read(at::kBFloat16); });
  };
  damage("fp8", name, 5, 0x7F);
  EXPECT_THAT(error(name), HasSubstr("model.safetensors: " + name + ": with the scales of " + name +
                                     "_scale_inv a number is infinite or not a number in bfloat16"));
  damage("fp8-powers", name + "_scale_inv", 7, 255);
  EXPECT_THAT(error(name), HasSubstr(name + "_scale_inv: a scale is infinite or not a number"));
  damage("fp8-bf16-scales", name + "_scale_inv", 1, 0x7F);  // 0x7F.. is beyond 2^127, or none
  EXPECT_THAT(error(name), HasSubstr(name + "_scale_inv: a scale is infinite or not a number"));
  damage("gptq", "model.layers.0.mlp.down_proj.g_idx", 0, 200);
  EXPECT_THAT(error(name), HasSubstr("down_proj.g_idx: got group 200, expected 0 to 2"));
}

// Of zeros they are passed over, as GivesTheSameLogits shows.
TEST_F(PackedFiles, BiasesThatTheModelHasNotAreErrors) {
  damage("gptq", "model.layers.0.mlp.down_proj.bias", 1, 0x3C);
  EXPECT_THAT(error_of([&] { load_model(root_.string(), Precision::fp32); }),
              HasSubstr("a tensor is not the model's: \"model.layers.0.mlp.down_proj.bias\""));
}

TEST_F(PackedFiles, GroupsThatWereNeverSetAreInTurn) {
  const std::string module = "model.layers.0.mlp.down_proj.";
  damage("gptq", module + "g_idx", 0, 0xFF, 48 * 4);
  EXPECT_TRUE(same_bits(hub::ModelTensors(root_).packed(module + "weight")->read(at::kFloat),
                        whole_weights("gptq").at(module + "weight")));
}

TEST(Packed, CodesOfEightBitsStandForTheNumbersOfTheirTypes) {
  for (const auto& [name, type] : {std::pair{"F8_E4M3", at::kFloat8_e4m3fn}, {"F8_E5M2", at::kFloat8_e5m2}}) {
    const std::vector<float> numbers = hub::numbers_of_type(name);
    ASSERT_EQ(numbers.size(), 256u);
    const Tensor codes = at::arange(256, at::kInt).to(at::kByte).view(type).to(at::kFloat);
    for (std::size_t code = 0; code < 256; ++code) {
      const float expected = host::values<float>(codes)[code];
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(numbers[code]) : numbers[code] == expected) << name << " " << code;
    }
  }
}

TEST_F(PackedFiles, AreCopiedAsTheyAreOrInFull) {
  hub::CopyWeights in_full;
  in_full.in_full = true;
  for (const std::string folder : {"fp8-one-scale", "fp8-stacked", "ct-words-zeros", "gptq-order", "awq"}) {
    SCOPED_TRACE(folder);
    const hub::CopiedWeights held = copied(folder, folder + "-held", {}),
                             full = copied(folder, folder + "-full", in_full);
    EXPECT_EQ(held.held.size(), 1u);
    EXPECT_TRUE(full.held.empty());
    EXPECT_EQ(held.parameters, full.parameters);
    const SafetensorsSet before(packed_folder(folder)), copy(root_ / (folder + "-held"));
    EXPECT_EQ(copy.tensors().size(), before.tensors().size());
    const bool half = folder == "gptq-order" || folder == "awq";  // as their config.json says
    const hub::ModelTensors again(root_ / (folder + "-held")), whole(root_ / (folder + "-full"));
    for (const auto& [name, expected] : whole_weights(folder)) {
      EXPECT_TRUE(same_bits(again.packed(name)->read(at::kFloat), expected));
      EXPECT_EQ(whole.packed(name), nullptr);
      const at::ScalarType type = half ? at::kHalf : at::kBFloat16;
      EXPECT_EQ(whole.all().at(name).tensor->dtype, half ? "F16" : "BF16");
      EXPECT_TRUE(same_bits(read_whole(whole.all().at(name), type), expected.to(type)));
    }
  }
  copied("fp8", "wide", {.type = at::kFloat});
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_TRUE(same_bits(read_whole(hub::ModelTensors(root_ / "wide").all().at(name), at::kFloat),
                        whole_weights("fp8").at(name)));
}

TEST(Packed, AreTrainedFromAllOfTheirNumbersAndSavedAsConfigSays) {
  const hub::ModelTensors tensors(packed_folder("fp8"));
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  EXPECT_EQ(tensors.exact_in(name), "F32");  // so that masters are not made of bf16
  EXPECT_EQ(tensors.saved_in(name), "BF16");
  EXPECT_EQ(tensors.all().at(name).tensor->dtype, "FP8");
  EXPECT_EQ(stored_precision(packed_folder("fp8")), Precision::bf16);
  EXPECT_EQ(stored_precision(packed_folder("gptq")), Precision::fp32);  // fp16, which is too narrow to be trained in
  EXPECT_TRUE(hub::holds_packed(packed_folder("awq")));
}

std::string problem_with(const std::string& quantization) {
  Problems problems;
  hub::read_quantization(config::parse_json(quantization, "config.json", problems), problems);
  return problems.empty() ? "no problem" : problems.size() > 1 ? "several problems" : problems.lines().front();
}

TEST(Packed, WhatIsNotReadIsAProblemThatSaysWhy) {
  const auto compressed = [](const std::string& more, const std::string& weights = R"("num_bits": 8)",
                             const std::string& targets = R"(["Linear"])") {
    return R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": )" + targets +
           R"(, "weights": {)" + weights + "}}}, " + more + "}";
  };
  EXPECT_EQ(problem_with(compressed(R"("format": "int-quantized")")), "no problem");
  EXPECT_EQ(problem_with(R"({"quant_method": "compressed-tensors", "format": "dense"})"), "no problem");
  const std::pair<std::string, std::string> cases[] = {
      {R"({"quant_method": "hqq"})", "quantized by hqq; expected a model in fp32"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size: expected [rows, columns]"},
      {R"({"quant_method": "fp8", "expert_dtype": "fp4"})", "expert_dtype: got fp4, expected fp8"},
      {compressed(R"("format": "marlin-24")"), "group_0.format: got marlin-24, expected float-quantized or int-"},
      {compressed(R"("format": "int-quantized", "quantization_status": "frozen")"), "got frozen, expected compressed"},
      {compressed(R"("format": "int-quantized", "transform_config": {"config_groups": {}})"), "rotated"},
      {compressed(R"("format": "int-quantized", "sparsity_config": {"format": "sparse-24-bitmask"})"),
       "sparsity_config.format: got sparse-24-bitmask, expected dense"},
      {compressed(R"("format": "pack-quantized")", R"("num_bits": 3)"),
       "num_bits: got 3 bits of type int in format pack"},
      {compressed(R"("format": "int-quantized")", R"("strategy": "tensor_group")"),
       "weights.strategy: got tensor_group, expected tensor or channel or group or block"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": null}})",
       "config_groups.g: expected a section"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": [{}]})",
       "config_groups: expected a section"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights": 8}}})",
       "config_groups.g.weights: expected a section"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8, "group_size": 1e30)"),
       "group_size: expected a whole"},
      {compressed(R"("format": "int-quantized")", R"("strategy": "group", "group_size": -5)"),
       "expected a whole number"},
      {compressed(R"("format": "int-quantized")", R"("strategy": "group", "group_size": -1)"),
       "group_size: got -1, expected at least 1"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8, "symmetric": "no")"),
       "weights.symmetric: expected true or false"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8)", R"("Linear")"),
       "group_0.targets: expected a list of names"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8)", "[[1]]"), "targets: expected a list of names"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8)", R"(["re:a("])"),
       "group_0.targets: \"re:a(\" is no expression that hone reads: a ( without )"},
      {compressed(R"("format": "int-quantized")", R"("num_bits": 8)",
                  R"(["re:a{900}", "re:a{900}", "re:a{900}", "re:a{900}", "re:a{900}", "re:a{900}"])"),
       "group_0.targets: the expressions have more than 5000 steps together"},
      {R"({"quant_method": "fp8", "weight_block_size": [9223372036854775807, 1]})", "both at least 1"},
      {R"({"quant_method": "gptq", "bits": 3})", "bits: got 3, expected 4 or 8"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": -5})", "group_size: expected a whole number"},
      {R"({"quant_method": "gptq", "bits": 4, "sym": 1})", "sym: expected true or false"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": ["gptq_v2"]})",
       "checkpoint_format: expected a text"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})", "got marlin, expected gptq or gptq_v2"},
      {R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*down.*": {}}})", "dynamic: modules with bits"},
      {R"({"quant_method": "awq", "bits": 4, "version": "gemv"})", "version: got gemv, expected gemm"},
      {R"({"quant_method": "awq", "bits": 8})", "bits: got 8, expected 4"}};
  for (const auto& [quantization, fact] : cases)
    EXPECT_THAT(problem_with(quantization), HasSubstr(fact)) << quantization;
}

}  // namespace
}  // namespace hone::test
