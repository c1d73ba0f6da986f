// What a vision tower reads of a picture: resized, cut and normalised as a model's preprocessor_config.json says.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "images/picture.h"

namespace hone::images {

// How large what becomes of a picture is; known from the first bytes of its file.
struct Layout {
  std::vector<std::int64_t> shape = {};   // of Values::values: [tiles, 3, height, width], or Qwen's [patches, numbers]
  std::array<std::int64_t, 3> grid = {};  // time, height and width in patches (Qwen's grid_thw); zeros: of no patches
  std::int64_t tokens = 0;                // in a text, of a processor that merges patches; 0: the model knows
  std::int64_t tiles = 1;                 // pictures of the tower's size that it becomes
  std::int64_t rows = 0, columns = 0;     // of tiles besides the one that shows all of it, which is the first one of
                                          // LLaVA-NeXT's and the last one of all others; 0: it is not cut
  std::array<std::int64_t, 3> whole = {}; // grid of that one, where it is another than a tile's (LFM2-VL)
  Extent upright = {};                    // the picture's own size, of LLaVA-NeXT's
  bool operator==(const Layout&) const = default;
};

struct Values {
  Layout layout;
  std::vector<float> values;  // row-major
};

// Of one type of image processor. Numbers are those that transformers' processor of that name gives on a CPU, which
// resizes by torchvision and not by Pillow. Const and safe from several threads at once.
class Processor {
 public:
  virtual ~Processor() = default;
  virtual std::string_view type() const = 0;               // image_processor_type, without "Fast" or "Pil" at its end
  virtual Layout layout(const Extent& upright) const = 0;  // of a picture of this size
  virtual Values process(const Picture& picture) const = 0;
  virtual bool cuts_long_pictures() const { return false; }  // into parts that no place of a text is for

  // Of the bytes of a file (JPEG, PNG, WebP). Error(data) without the file's name: add it with during().
  Layout layout_of(std::string_view file) const { return layout(extent_of(file)); }  // reads the header only
  Values process_file(std::string_view file) const { return process(decode(file)); }
};

// Who asks: somebody who wants pictures alone, or, as models read them, among words. Then the processor of both says
// some of it in transformers: how large what becomes a token is (Pixtral), that pictures are cut (InternVL).
enum class Use { alone, among_words };

// Of a model's folder: "image_processor" of processor_config.json, else preprocessor_config.json. Every key is read
// strictly. Error(checkpoint): there is none, it is of a type that hone has not, or says what hone has not.
std::unique_ptr<const Processor> open_processor(const std::filesystem::path& folder, Use use = Use::alone);
bool has_processor(const std::filesystem::path& folder);

// Name -> content of the folder's files that describe processors, to be carried over to another folder of the model:
// preprocessor_config.json, processor_config.json, video_preprocessor_config.json. Empty: it has none.
std::map<std::string, std::string> processor_files(const std::filesystem::path& folder);

}  // namespace hone::images
