// Processors: the numbers and sizes of transformers' own, and which keys of preprocessor_config.json are refused.
#include "images/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/errors.h"
#include "images/goldens.h"
#include "io/json.h"

namespace hone::images {
namespace {

std::unique_ptr<const Processor> golden_processor(const std::string& name) {
  return open_processor(images_golden("processors/" + name));
}

TEST(Processors, GiveTransformersNumbers) {
  const Safetensors golden(images_golden("processed.safetensors"));
  std::set<std::string> types;
  for (const TensorInfo& tensor : golden.tensors()) {
    SCOPED_TRACE(tensor.name);
    const auto slash = tensor.name.find('/');
    const auto processor = golden_processor(tensor.name.substr(0, slash));
    const Values made = processor->process_file(picture_file(tensor.name.substr(slash + 1)));
    EXPECT_EQ(made.layout.shape, tensor.shape);
    const std::vector<float> expected = values_of<float>(golden, tensor);
    ASSERT_EQ(made.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_LE(std::abs(made.values[i] - expected[i]), 1e-6f * std::max(1.0f, std::abs(expected[i])))
          << "number " << i << ": got " << made.values[i] << ", expected " << expected[i];
    types.insert(std::string(processor->type()));
  }
  EXPECT_EQ(types.size(), 12u);
}

// The file's own size is enough to know how many numbers and tokens it becomes.
TEST(Processors, LayOutPicturesOfAllSizesAsTransformersDoes) {
  const nlohmann::json golden = io::read_json_file(images_golden("layouts.json"));
  for (const auto& [name, rows] : golden.items()) {
    const auto processor = golden_processor(name);
    for (const nlohmann::json& row : rows) {
      SCOPED_TRACE(name + " " + row.dump());
      const Extent extent{row["size"][0], row["size"][1]};
      if (row.contains("error")) {
        EXPECT_THROW(processor->layout(extent), Error);
        continue;
      }
      const Layout made = processor->layout(extent);
      EXPECT_EQ(made.shape, row["shape"].get<std::vector<std::int64_t>>());
      if (row.contains("grid")) {
        EXPECT_EQ(made.grid, (row["grid"].get<std::array<std::int64_t, 3>>()));
        EXPECT_EQ(made.tokens, row["tokens"].get<std::int64_t>());
      } else {
        EXPECT_EQ(made.tiles, made.shape[0]);
      }
      if (row.contains("parts")) {
        EXPECT_EQ(made.rows, row["parts"][0].get<std::int64_t>());
        EXPECT_EQ(made.columns, row["parts"][1].get<std::int64_t>());
      }
    }
  }
}

TEST(Processors, MakeWhatTheirLayoutSays) {
  for (const char* name : {"clip", "siglip", "llava", "qwen2-vl", "gemma3-scan", "idefics3", "smolvlm", "pixtral",
                           "lfm2-vl", "lfm2-vl-tiles", "internvl"})
    for (const char* file : {"orientation-6.jpg", "tall.png", "turned.webp", "rgba.png"}) {
      SCOPED_TRACE(std::string(name) + ", " + file);
      const auto processor = golden_processor(name);
      const std::string bytes = picture_file(file);
      const Values made = processor->process_file(bytes);
      EXPECT_EQ(made.layout, processor->layout_of(bytes));
      std::int64_t numbers = 1;
      for (const std::int64_t size : made.layout.shape) numbers *= size;
      EXPECT_EQ(static_cast<std::int64_t>(made.values.size()), numbers);
    }
}

class ProcessorFiles : public test::WithFolder {
 protected:
  // Of these keys alone.
  std::unique_ptr<const Processor> of(const std::string& keys, const char* name = "preprocessor_config.json") {
    folder_.write(name, keys);
    return open_processor(folder_.path());
  }
};

TEST_F(ProcessorFiles, OfTheProcessorCountBeforeThePreprocessors) {
  EXPECT_FALSE(has_processor(folder_.path()));
  EXPECT_HONE_ERROR(open_processor(folder_.path()), checkpoint, "no preprocessor_config.json");
  EXPECT_EQ(of(R"({"image_processor_type": "SiglipImageProcessor"})")->type(), "SiglipImageProcessor");
  EXPECT_TRUE(has_processor(folder_.path()));
  // As LLaVA's are, that hold nothing of pictures.
  EXPECT_EQ(of(R"({"patch_size": 14})", "processor_config.json")->type(), "SiglipImageProcessor");
  EXPECT_EQ(of(R"({"image_processor": {"image_processor_type": "CLIPImageProcessorFast", "size": null}})",
               "processor_config.json")
                ->type(),
            "CLIPImageProcessor");
  EXPECT_EQ(processor_files(folder_.path()).size(), 2u);
}

TEST_F(ProcessorFiles, OfAnUnknownTypeListTheKnownOnes) {
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "SigclipImageProcessor"})"), checkpoint,
                    R"(image_processor_type: got "SigclipImageProcessor", expected one of CLIPImageProcessor, )");
  EXPECT_HONE_ERROR(of(R"({"size": 3})"), checkpoint, "image_processor_type: got none");
}

TEST_F(ProcessorFiles, DoNotPadALineToASquareThatNobodyHasRoomFor) {
  const auto padding = of(R"({"image_processor_type": "LlavaImageProcessor", "do_pad": true})");
  EXPECT_NO_THROW(padding->layout({1, 9000}));
  EXPECT_HONE_ERROR(padding->layout({1, 30'000}), data, "89478485 pixels");
}

TEST_F(ProcessorFiles, AreReadStrictly) {
  const auto clip = [&](const std::string& rest) {
    return of(R"({"image_processor_type": "CLIPImageProcessor", )" + rest + "}");
  };
  EXPECT_NO_THROW(clip(R"("_valid_processor_keys": ["images"], "processor_class": "LlavaProcessor", "do_pad": null)"));
  EXPECT_HONE_ERROR(clip(R"("do_resise": true)"), checkpoint, "do_resise: no such option; did you mean do_resize?");
  EXPECT_HONE_ERROR(clip(R"("resample": 4)"), checkpoint, "resample: got 4, expected 0 (nearest)");
  EXPECT_HONE_ERROR(clip(R"("do_convert_rgb": false)"), checkpoint, "do_convert_rgb: got false");
  EXPECT_HONE_ERROR(clip(R"("size": {"longest_edge": 5})"), checkpoint, "size: expected height and width");
  EXPECT_HONE_ERROR(clip(R"("size": {"hight": 5})"), checkpoint, "size.hight: no such option");
  EXPECT_HONE_ERROR(clip(R"("size": {"height": 0, "width": 3})"), checkpoint, "size.height: got 0");
  EXPECT_HONE_ERROR(clip(R"("crop_size": {"shortest_edge": 5})"), checkpoint, "crop_size: expected height and width");
  EXPECT_HONE_ERROR(clip(R"("image_std": [1, 0, 1])"), checkpoint, "image_std: got 0");
  EXPECT_HONE_ERROR(clip(R"("image_mean": [1, 2])"), checkpoint, "image_mean: got 2 numbers, expected one or three");
  EXPECT_HONE_ERROR(clip(R"("do_pad": true)"), checkpoint, "do_pad: got true");
  EXPECT_HONE_ERROR(clip(R"("data_format": "channels_last")"), checkpoint, "data_format: got \"channels_last\"");
  EXPECT_HONE_ERROR(clip(R"("patch_size": 14)"), checkpoint, "patch_size: no such option");
}

TEST_F(ProcessorFiles, OfQwenNeedBothBounds) {
  const auto qwen = [&](const std::string& rest) {
    return of(R"({"image_processor_type": "Qwen2VLImageProcessor", )" + rest + "}");
  };
  // The four ways to say the same.
  for (const char* bounds :
       {R"("size": {"shortest_edge": 3136, "longest_edge": 6272})", R"("min_pixels": 3136, "max_pixels": 6272)",
        R"("size": {"min_pixels": 3136, "max_pixels": 6272})",
        R"("size": {"shortest_edge": 1, "longest_edge": 2}, "min_pixels": 3136, "max_pixels": 6272)"})
    EXPECT_EQ(qwen(bounds)->layout({100, 100}).grid, (std::array<std::int64_t, 3>{1, 4, 4})) << bounds;
  EXPECT_HONE_ERROR(qwen(R"("size": {"shortest_edge": 3136})"), checkpoint, "size: expected shortest_edge and longest");
  EXPECT_HONE_ERROR(qwen(R"("size": {"height": 3, "width": 3})"), checkpoint, "size: expected shortest_edge");
  EXPECT_HONE_ERROR(qwen(R"("merge_size": 2)")->layout({1, 201}), data, "at most 200 times as long as wide");
  EXPECT_HONE_ERROR(qwen(R"("do_resize": false)")->layout({28, 27}), data, "expected multiples of 28");
  EXPECT_EQ(qwen(R"("do_resize": false)")->layout({28, 56}).tokens, 2);
}

TEST_F(ProcessorFiles, OfOthersSayWhatIsMissing) {
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "Gemma3ImageProcessor", "do_pan_and_scan": true})"), checkpoint,
                    "do_pan_and_scan: got true, which needs pan_and_scan_min_crop_size");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "Idefics3ImageProcessor", "size": {"shortest_edge": 9}})"),
                    checkpoint, "size: expected longest_edge, or height and width");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "SmolVLMImageProcessor", "max_image_size": {"height": 9}})"),
                    checkpoint, "max_image_size: expected longest_edge");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "SmolVLMImageProcessor")"), checkpoint, "preprocessor_config.json");
  EXPECT_HONE_ERROR(of("[3]"), checkpoint, "expected an object of keys");
}

// Among words the processor of both says in what steps sides grow, whatever the one of pictures says.
TEST_F(ProcessorFiles, OfPixtralAreAskedByWhoReadsPicturesAmongWords) {
  const auto layout_of = [&](const std::string& beside) {
    of(R"({"image_processor_type": "PixtralImageProcessor", "patch_size": 14})");
    folder_.write("processor_config.json", beside);
    return open_processor(folder_.path(), Use::among_words)->layout({30, 15}).shape;
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(layout_of(R"({"patch_size": 14, "spatial_merge_size": 2})"), (Shape{1, 3, 56, 28}));
  EXPECT_EQ(layout_of(R"({"patch_size": 14})"), (Shape{1, 3, 42, 28}));
  EXPECT_EQ(layout_of("{}"), (Shape{1, 3, 32, 16}));
  EXPECT_EQ(open_processor(folder_.path())->layout({30, 15}).shape, (Shape{1, 3, 42, 28}));
  EXPECT_HONE_ERROR(layout_of(R"({"image_break_token": "<br>"})"), checkpoint, "image_break_token: expected [IMG_BREAK]");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "PixtralImageProcessor", "do_center_crop": true})"), checkpoint,
                    "do_center_crop: got true");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "PixtralImageProcessor", "size": {"height": 3}})"), checkpoint,
                    "size: expected longest_edge");
}

// InternVL's own processor cuts whatever is said; LFM2-VL's has no use for texts without tokens beside pictures.
TEST_F(ProcessorFiles, OfInternVlAreCutAmongWords) {
  EXPECT_EQ(of(R"({"image_processor_type": "GotOcr2ImageProcessor", "crop_to_patches": false})")->layout({9, 18}).tiles,
            1);
  EXPECT_EQ(open_processor(folder_.path(), Use::among_words)->layout({9, 18}).tiles, 3);
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 3, "width": 4}})"),
                    checkpoint, "size: expected height and width, both the same");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "GotOcr2ImageProcessor", "min_patches": 13})"), checkpoint,
                    "min_patches: got 13");
  of(R"({"image_processor_type": "Lfm2VlImageProcessorFast"})");
  folder_.write("processor_config.json", R"({"use_image_special_tokens": false})");
  EXPECT_HONE_ERROR(open_processor(folder_.path(), Use::among_words), checkpoint,
                    "use_image_special_tokens: got false");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "Lfm2VlImageProcessor", "min_tiles": 1})"), checkpoint,
                    "min_tiles: got 1, expected at least 2");
  EXPECT_HONE_ERROR(of(R"({"image_processor_type": "Lfm2VlImageProcessor", "tile_size": 500})"), checkpoint,
                    "tile_size: got 500, expected a multiple of encoder_patch_size times downsample_factor (32)");
}

TEST_F(ProcessorFiles, NeverMakeMoreThanThereIsRoomFor) {
  const auto clip = of(R"({"image_processor_type": "CLIPImageProcessor", "do_center_crop": false})");
  EXPECT_HONE_ERROR(clip->layout({1, 65535}), data, "would be resized to 14679840 x 224");
  const auto fit = of(R"({"image_processor_type": "CLIPImageProcessor", "size": {"max_height": 9, "max_width": 9}})");
  EXPECT_HONE_ERROR(fit->layout({1, 65535}), data, "would be resized to 9 x 0");
}

}  // namespace
}  // namespace hone::images
