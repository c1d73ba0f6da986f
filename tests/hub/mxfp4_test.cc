// Weights in MXFP4 against transformers' numbers (tools/golden/golden_mxfp4.py), and what is not such a weight.
#include "hub/mxfp4.h"

#include <gmock/gmock.h>

#include <cstring>

#include "harness/files.h"
#include "hone/hub.h"
#include "hub/copy_weights.h"
#include "hub/folders.h"
#include "hub/model_tensors.h"
#include "hub/packed/find_packed.h"
#include "hub/whole_tensors.h"
#include "tensor/compare.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

fs::path values_file() { return golden("mxfp4") / "values.safetensors"; }

// transformers' bf16, to the bit.
Tensor expected_of(const hub::ModelTensors& tensors, const std::string& name) {
  return read_whole(tensors.all().at(name + ".bits"), at::kShort).view(at::kBFloat16);
}

class Mxfp4Files : public Folders {
 protected:
  std::string error_with(const std::vector<Entry>& entries) {
    write_safetensors(root_ / "model.safetensors", entries);
    return error_of([&] { hub::ModelTensors(root_).all(); });
  }
};

TEST(Mxfp4, IsToTheBitWhatTransformersMakesOfIt) {
  const hub::ModelTensors tensors(values_file());
  for (const std::string name : {"some", "far"}) {
    SCOPED_TRACE(name);
    const Tensor expected = expected_of(tensors, name);
    const hub::Packed* packed = tensors.packed(name);
    ASSERT_NE(packed, nullptr);
    for (const at::ScalarType type : {at::kBFloat16, at::kFloat, at::kDouble})
      EXPECT_TRUE(same_bits(packed->read(type), expected.to(type))) << type;
  }
  EXPECT_TRUE(same_bits(tensors.packed("some")->read(at::kHalf), expected_of(tensors, "some").to(at::kHalf)));
  EXPECT_THAT(error_of([&] { tensors.packed("far")->read(at::kHalf); }),
              HasSubstr("far_blocks: with the scales of far_scales a number is infinite in float16"));
}

TEST(Mxfp4, IsReadInParts) {
  const hub::ModelTensors tensors(values_file());
  const Tensor expected = expected_of(tensors, "some");
  const hub::Packed& packed = *tensors.packed("some");
  const std::int64_t of_one = 64 * 6, all = 3 * of_one;
  for (const auto& [begin, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, all / 2}, {all / 2, all / 2}, {of_one, of_one}, {of_one - 1, 2}, {0, all}, {all, 0}, {of_one + 7, 0}}) {
    SCOPED_TRACE(begin);
    Weight weight({3, 64, 6}, Init{}, true);
    Layout layout = weight.layout();
    layout.begin = begin, layout.count = count;
    weight.set_layout(layout);
    EXPECT_TRUE(same_bits(packed.read(weight, at::kBFloat16), expected.flatten().narrow(0, begin, count)));
  }
  Weight rows({3, 64, 6}, Init{}, true);
  rows.set_layout({.global_shape = {3, 64, 6}, .shape = {2, 64, 6}, .offset = {1, 0, 0}, .axes = {"experts", "", ""}});
  EXPECT_TRUE(same_bits(packed.read(rows, at::kFloat), expected.narrow(0, 1, 2).to(at::kFloat)));
}

TEST(Mxfp4, OfAnotherShapeThanTheWeightIsRefused) {
  const hub::ModelTensors tensors(values_file());
  const Weight weight({3, 6, 64}, Init{}, true);
  EXPECT_THAT(error_of([&] { tensors.packed("some")->read(weight, at::kFloat); }),
              HasSubstr("values.safetensors: some: got shape [3, 64, 6], expected [3, 6, 64]"));
}

TEST_F(Mxfp4Files, AreToldAsOneTensor) {
  const std::string experts = "model.layers.0.mlp.experts.";
  write_safetensors(root_ / "model.safetensors", {{experts + "gate_up_proj_blocks", "U8", {2, 8, 1, 16}, 256},
                                                  {experts + "gate_up_proj_scales", "U8", {2, 8, 1}, 16},
                                                  {"model.norm.weight", "F32", {32}, 128}});
  const hub::ModelTensors tensors(root_);
  EXPECT_EQ(tensors.all().size(), 2u);
  const TensorInfo& told = *tensors.all().at(experts + "gate_up_proj").tensor;  // not cut into single experts
  EXPECT_EQ(told.dtype, "MXFP4");
  EXPECT_EQ(told.shape, (std::vector<std::int64_t>{2, 32, 8}));
  EXPECT_EQ(told.bytes(), 256u + 16);
  EXPECT_EQ(tensors.packed("model.norm.weight"), nullptr);
  EXPECT_EQ(stored_precision(root_), Precision::bf16);
  EXPECT_TRUE(hub::holds_packed(root_));
}

TEST_F(Mxfp4Files, ThatAreNotWholeAreErrorsThatSayWhere) {
  const Entry blocks{"a.w_blocks", "U8", {2, 3, 1, 16}, 96}, scales{"a.w_scales", "U8", {2, 3, 1}, 6};
  const std::string file = (root_ / "model.safetensors").string() + ": ";
  EXPECT_EQ(error_with({blocks, scales}), "no error");
  EXPECT_THAT(error_with({blocks}), HasSubstr(file + "a.w_blocks: a.w_scales is missing, without which it means"));
  EXPECT_THAT(error_with({scales}), HasSubstr(file + "a.w_scales: a.w_blocks is missing, without which it means"));
  EXPECT_THAT(error_with({blocks, {"a.w_scales", "F32", {2, 3, 1}, 24}}),
              HasSubstr(file + "a.w_scales: got dtype F32, expected U8"));
  EXPECT_THAT(error_with({{"a.w_blocks", "I8", {2, 3, 1, 16}, 96}, scales}),
              HasSubstr(file + "a.w_blocks: got dtype I8, expected U8"));
  EXPECT_THAT(error_with({blocks, {"a.w_scales", "U8", {2, 1, 3}, 6}}),
              HasSubstr(file + "a.w_scales: got shape [2, 1, 3], expected [2, 3, 1], one for each 16 bytes"));
  EXPECT_THAT(error_with({{"a.w_blocks", "U8", {6, 1, 16}, 96}, scales}),
              HasSubstr(file + "a.w_blocks: got shape [6, 1, 16], expected [experts, rows, columns / 32, 16]"));
  EXPECT_THAT(error_with({{"a.w_blocks", "U8", {2, 3, 1, 8}, 48}, scales}), HasSubstr("got shape [2, 3, 1, 8]"));
  EXPECT_THAT(error_with({{"a.w_blocks", "U8", {0, 3, 1, 16}, 0}, {"a.w_scales", "U8", {0, 3, 1}, 0}}),
              HasSubstr("got shape [0, 3, 1, 16]"));
  EXPECT_THAT(error_with({blocks, scales, {"a.w", "BF16", {2, 32, 3}, 384}}), HasSubstr("a.w is there twice"));
  EXPECT_EQ(error_with({{"a.building_blocks", "F32", {4}, 16}}), "no error");
}

// transformers makes infinite numbers of them, and of 255 none.
TEST_F(Mxfp4Files, ScalesBeyondAllNumbersAreRefused) {
  for (const int scale : {252, 253, 255}) {
    std::string text = read_text(values_file());
    std::uint64_t head = 0;
    std::memcpy(&head, text.data(), sizeof head);
    const Safetensors file(values_file());
    text[8 + head + file.find("far_scales")->end - 1] = static_cast<char>(scale);
    write_text(root_ / "model.safetensors", text);
    const hub::ModelTensors tensors(root_);
    EXPECT_THAT(error_of([&] { tensors.packed("far")->read(at::kFloat); }),
                HasSubstr(scale == 252 ? "no error"
                                       : "model.safetensors: far_scales: got a scale of " + std::to_string(scale) +
                                             ", expected at most 252, with which all numbers are finite"));
  }
}

TEST(Mxfp4Model, GivesTheLogitsOfTransformers) {
  const fs::path folder = golden("mxfp4") / "gpt_oss";
  const SafetensorsSet expected(folder / "golden.safetensors");
  const auto read = [&](const std::string& name, at::ScalarType type) {
    return read_whole(expected.tensors().at(name), type);
  };
  Batch batch;
  batch.ids_BT = read("input_ids", at::kLong);
  const Tensor logits_BTV = read("logits", at::kFloat);
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    const auto model = load_model(folder.string(), precision);
    EXPECT_EQ(difference(model->causal_lm()->logits(batch), logits_BTV, 2e-5 * largest(logits_BTV)), "");
  }
}

TEST_F(Mxfp4Files, AreCopiedAsTheyAreOrInFull) {
  fs::create_directories(root_ / "m");
  fs::copy_file(values_file(), root_ / "m" / "model.safetensors");
  const auto copied = [&](const std::string& name, const hub::CopyWeights& how) {
    io::FolderCommit commit = io::commit_to(root_ / name, false);
    const hub::CopiedWeights made = hub::copy_weights(commit, root_ / "m", how);
    commit.commit({});
    return made;
  };
  hub::CopyWeights in_full;
  in_full.in_full = true;
  const hub::CopiedWeights held = copied("held", {}), full = copied("full", in_full);
  EXPECT_EQ(held.held, std::set<std::string>{"mxfp4"});
  EXPECT_TRUE(full.held.empty());
  const std::int64_t numbers = 3 * 64 * 6 + 32 * 253;
  EXPECT_EQ(held.parameters, 2 * numbers);  // those of transformers lie beside them
  EXPECT_EQ(full.parameters, 2 * numbers);
  const hub::ModelTensors before(values_file()), as_it_was(root_ / "held"), whole(root_ / "full");
  for (const std::string name : {"some", "far"}) {
    EXPECT_TRUE(same_bits(as_it_was.packed(name)->read(at::kBFloat16), expected_of(before, name)));
    EXPECT_EQ(whole.packed(name), nullptr);
    EXPECT_TRUE(same_bits(read_whole(whole.all().at(name), at::kBFloat16), expected_of(before, name)));
  }
  copied("wide", {.type = at::kFloat});
  const hub::ModelTensors wide(root_ / "wide");
  EXPECT_TRUE(same_bits(read_whole(wide.all().at("far"), at::kFloat), expected_of(before, "far").to(at::kFloat)));
  EXPECT_THAT(error_of([&] { copied("half", {.type = at::kHalf}); }),
              AllOf(HasSubstr("model.safetensors: far: "), HasSubstr("beyond what float16 can hold")));
}

}  // namespace
}  // namespace hone::test
