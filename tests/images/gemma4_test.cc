// Gemma 4's processors: the numbers and sizes of transformers' own, and which keys are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "images/goldens.h"
#include "images/processor.h"
#include "io/json.h"

namespace hone::images {
namespace {

std::filesystem::path gemma4_golden(const std::string& name) { return test::golden("images_gemma4/" + name); }
std::unique_ptr<const Processor> gemma4_processor(const std::string& name) {
  return open_processor(gemma4_golden("processors/" + name));
}

// Where nothing is normalised, to the bit.
TEST(Gemma4Processors, GiveTransformersNumbers) {
  const Safetensors golden(gemma4_golden("processed.safetensors"));
  ASSERT_EQ(golden.tensors().size(), 5u);
  for (const TensorInfo& tensor : golden.tensors()) {
    SCOPED_TRACE(tensor.name);
    const auto slash = tensor.name.find('/');
    const auto processor = gemma4_processor(tensor.name.substr(0, slash));
    const Values made = processor->process_file(picture_file(tensor.name.substr(slash + 1)));
    EXPECT_EQ(made.layout.shape, tensor.shape);
    EXPECT_EQ(made.layout, processor->layout_of(picture_file(tensor.name.substr(slash + 1))));
    const std::vector<float> expected = values_of<float>(golden, tensor);
    ASSERT_EQ(made.values.size(), expected.size());
    const float tolerance = tensor.name.starts_with("thirds") ? 1e-6f : 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::abs(made.values[i] - expected[i]), tolerance) << "number " << i;
  }
}

TEST(Gemma4Processors, LayOutPicturesOfAllSizesAsTransformersDoes) {
  const nlohmann::json golden = io::read_json_file(gemma4_golden("layouts.json"));
  std::size_t seen = 0;
  for (const auto& [name, rows] : golden.items()) {
    const auto processor = gemma4_processor(name);
    for (const nlohmann::json& row : rows) {
      SCOPED_TRACE(name + " " + row.dump());
      const Layout made = processor->layout({row["size"][0], row["size"][1]});
      EXPECT_EQ(made.shape, row["shape"].get<std::vector<std::int64_t>>());
      EXPECT_EQ(made.grid, (row["grid"].get<std::array<std::int64_t, 3>>()));
      EXPECT_EQ(made.tokens, row["tokens"].get<std::int64_t>());
      ++seen;
    }
  }
  EXPECT_GT(seen, 100u);
}

class Gemma4ProcessorFiles : public test::WithFolder {
 protected:
  std::unique_ptr<const Processor> of(const std::string& rest) {
    folder_.write("preprocessor_config.json", R"({"image_processor_type": "Gemma4ImageProcessor", )" + rest + "}");
    return open_processor(folder_.path());
  }
};

TEST_F(Gemma4ProcessorFiles, AreReadStrictly) {
  EXPECT_EQ(of(R"("size": null, "max_soft_tokens": 70)")->layout({480, 480}).grid,
            (std::array<std::int64_t, 3>{1, 24, 24}));
  EXPECT_HONE_ERROR(of(R"("max_soft_tokens": 71)"), checkpoint, "max_soft_tokens: got 71, expected 70, 140, 280");
  EXPECT_HONE_ERROR(of(R"("size": {"height": 9, "width": 9})"), checkpoint, "size: got one, expected none");
  EXPECT_HONE_ERROR(of(R"("do_resize": false)"), checkpoint, "do_resize: got false");
  EXPECT_HONE_ERROR(of(R"("merge_size": 2)"), checkpoint, "merge_size: no such option");
}

}  // namespace
}  // namespace hone::images
