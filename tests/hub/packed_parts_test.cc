// Parts of packed weights that are not what config.json or their names say, and parts that are rare.
#include <gmock/gmock.h>

#include <bit>

#include "hub/packed_files.h"
#include "hub/tied_head.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kModule = "model.layers.0.mlp.down_proj.", kWeight = kModule + "weight";  // [32, 48]

class PackedParts : public PackedFiles {
 protected:
  static std::string compressed(const std::string& format, const std::string& weights) {
    return R"({"quant_method": "compressed-tensors", "format": ")" + format +
           R"(", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {)" + weights + "}}}}";
  }
  std::string with_shape(const std::string& folder, const std::string& tensor, const std::vector<std::int64_t>& shape) {
    take(folder);
    change_head([&](auto& head) { head[tensor]["shape"] = shape; });
    return error_of([&] { hub::ModelTensors(root_).all(); });
  }
  void set_symmetric() {
    change_config([](auto& c) { c["quantization_config"]["config_groups"]["group_0"]["weights"]["symmetric"] = true; });
  }
};

TEST_F(PackedParts, TransposedZerosAreErrors) {
  EXPECT_EQ(with_shape("gptq-order", kModule + "qzeros", {6, 4}), "no error");
  EXPECT_THAT(with_shape("gptq-order", kModule + "qzeros", {4, 6}),
              HasSubstr(kModule + "qzeros: got I32 of shape [4, 6], expected I32 of shape [6, 4]"));
  EXPECT_EQ(with_shape("ct-words-zeros", kWeight + "_zero_point", {4, 6}), "no error");
  EXPECT_THAT(with_shape("ct-words-zeros", kWeight + "_zero_point", {6, 4}),
              HasSubstr("_zero_point: got I32 of shape [6, 4], expected I32 of shape [4, 6]"));
  EXPECT_EQ(with_shape("ct-int-zeros", kWeight + "_zero_point", {32}), "no error");
  EXPECT_THAT(with_shape("ct-int-zeros", kWeight + "_zero_point", {1, 32}),
              HasSubstr("_zero_point: got I8 of shape [1, 32], expected I8 of shape [32, 1]"));
}

TEST_F(PackedParts, ZerosOfCodesThatAreCalledSymmetricAreUsed) {
  for (const std::string folder : {"ct-int-zeros", "ct-words-zeros"}) {
    SCOPED_TRACE(folder);
    take(folder);
    set_symmetric();
    for (const auto& [name, expected] : whole_weights(folder))
      EXPECT_TRUE(same_bits(hub::ModelTensors(root_).packed(name)->read(at::kFloat), expected)) << name;
  }
  const std::string bytes = compressed("float-quantized", R"("num_bits": 8, "type": "float", "strategy": "channel")");
  const std::vector<Entry> entries = {{"a.weight", "F8_E4M3", {3, 8}, 24},
                                      {"a.weight_scale", "F32", {3, 1}, 12},
                                      {"a.weight_zero_point", "F8_E4M3", {3, 1}, 3}};
  EXPECT_EQ(error_with(bytes, entries), "no error");  // all are 0
  set_bytes("a.weight_zero_point", 1, "\x38");
  EXPECT_THAT(error_of([&] { hub::ModelTensors(root_).all(); }),
              HasSubstr("a.weight_zero_point: got F8_E4M3 of shape [3, 1], expected I8 of shape [3, 1]"));
}

TEST_F(PackedParts, ExpertsInOneTensorHaveZerosOfTheirOwn) {
  const std::string bytes = compressed("int-quantized", R"("num_bits": 8, "strategy": "channel", "symmetric": false)");
  ASSERT_EQ(error_with(bytes, {{"a.weight", "I8", {2, 3, 4}, 24},
                               {"a.weight_scale", "F32", {2, 3, 1}, 24},
                               {"a.weight_zero_point", "I8", {2, 3, 1}, 6}}),
            "no error");
  for (std::uint64_t row = 0; row < 6; ++row) {
    set_number("a.weight_scale", row, 2.0F);
    set_number("a.weight_zero_point", row, static_cast<std::int8_t>(row));
  }
  const Tensor expected = at::arange(6, at::kFloat).mul(-2).view({2, 3, 1}).expand({2, 3, 4}).contiguous();
  EXPECT_TRUE(at::equal(hub::ModelTensors(root_).packed("a.weight")->read(at::kFloat), expected));
}

// Of inputs, whose columns of scales do not come in turn.
TEST_F(PackedParts, GroupsOfCompressedTensorsAreUsed) {
  take("ct-words");
  std::string groups(48 * 4, '\0');
  std::vector<std::int64_t> group_of(48);
  for (std::size_t i = 0; i < 48; ++i) group_of[i] = groups[4 * i] = static_cast<char>((i * 5 + 1) % 3);
  std::int64_t data = 0;
  change_head(
      [&](auto& head) {
        for (const auto& [name, told] : head.items())
          if (name != "__metadata__") data = std::max(data, told["data_offsets"][1].template get<std::int64_t>());
        head[kWeight + "_g_idx"] = {{"dtype", "I32"}, {"shape", {48}}, {"data_offsets", {data, data + 48 * 4}}};
      },
      groups);
  const SafetensorsSet files(root_);
  const Tensor scales = read_whole(files.tensors().at(kWeight + "_scale"), at::kFloat);
  const Tensor codes = (whole_weights("ct-words").at(kWeight) / scales.repeat_interleave(16, 1)).round();
  const Tensor expected = codes * scales.index_select(1, at::tensor(group_of));
  EXPECT_TRUE(at::equal(hub::ModelTensors(root_).packed(kWeight)->read(at::kFloat), expected));
}

TEST_F(PackedParts, OfTypesThatConfigExcludesAreErrors) {
  const Entry codes{"a.weight", "I8", {3, 8}, 24}, floats{"a.weight", "F8_E4M3", {3, 8}, 24};
  EXPECT_THAT(error_with(compressed("pack-quantized", R"("num_bits": 4, "strategy": "channel")"),
                         {codes, {"a.weight_scale", "F32", {3, 1}, 12}}),
              HasSubstr("a.weight: got dtype I8, and config.json says that weights like it are packed, 4 bits each"));
  const std::string channel = R"("num_bits": 8, "strategy": "channel", "type": )";
  for (const std::string type : {"U8", "F8_E8M0"}) {
    const Entry powers{"a.weight_scale", type, {3, 1}, 3};
    EXPECT_EQ(error_with(compressed("int-quantized", channel + R"("int")"), {codes, powers}), "no error");
    EXPECT_THAT(reading_error("a.weight"),
                HasSubstr("a.weight_scale: got dtype " + type + ", expected scales in F32, BF16 or F16"));
    error_with(compressed("float-quantized", channel + R"("float")"), {floats, powers});
    EXPECT_THAT(reading_error("a.weight"), HasSubstr("expected scales in F32, BF16 or F16"));
    error_with(compressed("mxfp8-quantized", channel + R"("float")"), {floats, powers});
    EXPECT_EQ(reading_error("a.weight"), "no error");
  }
}

TEST_F(PackedParts, BiasesOfZerosThatAreNotTheModulesArePassedOverInNoWay) {
  const auto with_bias = [&](const std::string& key, const nlohmann::json& value) {
    take("gptq");
    change_head([&](auto& head) { head[kModule + "bias"][key] = value; });
    return error_of([&] { load_model(root_.string(), Precision::fp32); });
  };
  EXPECT_EQ(with_bias("dtype", "F16"), "no error");
  for (const std::string& error : {with_bias("dtype", "I16"), with_bias("shape", {2, 16})})
    EXPECT_THAT(error, HasSubstr("a tensor is not the model's: \"" + kModule + "bias\""));
}

TEST_F(PackedParts, WithoutQuantizationConfigTheMissingKeyIsNamed) {
  for (const auto& [folder, end] : {std::pair{"fp8", "_scale_inv"},
                                    {"gptq", ".qweight"},
                                    {"awq", ".qweight"},
                                    {"ct-words", "_packed"},
                                    {"ct-int", "_scale"}}) {
    take(folder);
    change_config([](auto& config) { config.erase("quantization_config"); });
    EXPECT_THAT(error_of([&] { hub::ModelTensors(root_).all(); }),
                AllOf(HasSubstr(std::string(end) + ": belongs to a weight in few bits, and config.json has no "),
                      HasSubstr("\"quantization_config\" that says how to read it")));
  }
}

TEST_F(PackedParts, NumbersThatARoundedTypeDoesNotHoldAreErrors) {
  ASSERT_EQ(error_with(R"({"quant_method": "fp8", "weight_block_size": null})",
                       {{"a.weight", "F8_E4M3", {1, 1}, 1}, {"a.weight_scale_inv", "F32", {}, 4}}),
            "no error");
  const auto number = [&](std::uint32_t scale, char code, at::ScalarType type) {
    set_number("a.weight_scale_inv", 0, scale);
    set_bytes("a.weight", 0, std::string(1, code));
    return reading_error("a.weight", type);
  };
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  constexpr char kOne = 0x38, kMinusOne = static_cast<char>(0xB8);
  for (const char code : {kOne, kMinusOne}) {
    EXPECT_EQ(number(bits(65520.0F) - 1, code, at::kHalf), "no error");
    EXPECT_THAT(number(bits(65520.0F), code, at::kHalf), HasSubstr("a number is infinite or not a number in float16"));
    EXPECT_EQ(number(bits(65520.0F), code, at::kBFloat16), "no error");
    EXPECT_EQ(number(0x7f7f7fff, code, at::kBFloat16), "no error");
    EXPECT_THAT(number(0x7f7f8000, code, at::kBFloat16), HasSubstr("infinite or not a number in bfloat16"));
    EXPECT_EQ(number(0x7f7f8000, code, at::kFloat), "no error");
    EXPECT_EQ(number(0x7f7f8000, code, at::kDouble), "no error");
  }
  EXPECT_TRUE(hub::ModelTensors(root_).packed("a.weight")->read(at::kDouble).isfinite().all().item<bool>());
}

TEST_F(PackedParts, ATiedHeadIsComparedByWhatItsCodesStandFor) {
  const std::string fp8 = R"({"quant_method": "fp8", "weight_block_size": null})", head = "lm_head.weight",
                    table = "model.embed_tokens.weight";
  const auto tied_error = [&] {
    const auto model = small_model(/*tied=*/true);
    return error_of([&] { hub::check_tied_head(*model, hub::ModelTensors(root_).all()); });
  };
  const Entry scale{head + "_scale_inv", "F32", {}, 4}, codes{head, "F8_E4M3", {12, 8}, 96};
  error_with(fp8, {codes, scale, {table, "F8_E4M3", {12, 8}, 96}, {table + "_scale_inv", "F32", {}, 4}});
  set_number(head + "_scale_inv", 0, 2.0F);
  set_number(table + "_scale_inv", 0, 1.0F);
  set_bytes(head, 5, "\x38");   // 1
  set_bytes(table, 5, "\x40");  // 2
  EXPECT_EQ(tied_error(), "no error");
  set_bytes(table, 5, "\x38");
  EXPECT_THAT(tied_error(), HasSubstr("model.safetensors: lm_head.weight: differs from model.embed_tokens.weight"));
  error_with(fp8, {codes, scale, {table, "BF16", {12, 8}, 192}});
  set_number(head + "_scale_inv", 0, 2.0F);
  EXPECT_EQ(tied_error(), "no error");
  set_bytes(head, 95, "\x01");
  EXPECT_THAT(tied_error(), HasSubstr("lm_head.weight: differs from model.embed_tokens.weight"));
}

}  // namespace
}  // namespace hone::test
