// Pictures as a model's folder says that it reads them, and pictures of a batch.
#include "data/picture_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/env.h"
#include "base/hash.h"
#include "base/strings.h"
#include "images/processor.h"
#include "images/source.h"

namespace hone {
namespace {

std::string name_of(const PictureFile& file) {
  return file.path.empty() ? "a picture of " + human_size(file.bytes.size()) : file.path;
}

enum class FilePart { header, whole };

// Calls use(bytes) for what is in the file, or for as much of it as says the picture's size.
template <class Use>
auto with_bytes(const PictureFile& file, FilePart part, const Use& use) {
  return during("reading " + name_of(file), [&] {
    if (file.path.empty()) return use(std::string_view(file.bytes));
    const std::string bytes = part == FilePart::header ? images::header_bytes(file.path)
                                                       : InFile(file.path, ErrorKind::data).read_all(images::kMaxBytes);
    return use(std::string_view(bytes));
  });
}

class ModelPictures final : public PictureReader {
 public:
  ModelPictures(const PictureInput& input, const std::filesystem::path& folder)
      : input_(input), processor_(images::open_processor(folder)) {
    Hasher hasher;
    for (const auto& [name, content] : images::processor_files(folder)) hasher.update_field(name).update_field(content);
    for (const std::int64_t number :
         {std::int64_t{input.token}, input.patch_size, input.frames, input.merged, input.more, input.side})
      hasher.update_int(static_cast<std::uint64_t>(number));
    fingerprint_ = hasher.digest128_hex();
  }

  const PictureInput& input() const override { return input_; }
  PatchGrid grid(const PictureFile& file) const override {
    return with_bytes(file, FilePart::header,
                      [&](std::string_view bytes) { return grid_of(processor_->layout_of(bytes)); });
  }
  std::int64_t tokens(const PatchGrid& grid) const override {
    return grid.patches() / (input_.merged * input_.merged) + input_.more;
  }
  Patches read(const PictureFile& file) const override {
    return with_bytes(file, FilePart::whole, [&](std::string_view bytes) {
      images::Values made = processor_->process_file(bytes);
      const PatchGrid grid = grid_of(made.layout);
      if (made.layout.grid[0] > 0) return Patches{grid, std::move(made.values)};
      return Patches{grid, in_patches(made, grid)};
    });
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  PatchGrid grid_of(const images::Layout& layout) const {
    const auto unfit = [&](const std::string& fact) {
      return Error(ErrorKind::config, fmt::format("the image processor ({}) {}", processor_->type(), fact))
          .hint("preprocessor_config.json and config.json must be of one model");
    };
    if (layout.grid[0] > 0) {
      const PatchGrid grid{layout.grid[0], layout.grid[1], layout.grid[2]};
      const bool fits = layout.shape.size() == 2 && layout.shape[1] == input_.values() &&
                        grid.rows % input_.merged == 0 && grid.columns % input_.merged == 0;
      if (!fits)
        throw unfit(fmt::format("makes patches that the model, of {} values each, does not read", input_.values()));
      return grid;
    }
    if (layout.tiles != 1 || layout.shape.size() != 4 || input_.frames != 1 || input_.merged != 1)
      throw unfit("makes several pictures of one, or none of patches; the model reads another kind");
    const PatchGrid grid{1, layout.shape[2] / input_.patch_size, layout.shape[3] / input_.patch_size};
    if (input_.side > 0 && (grid.rows != input_.side || grid.columns != input_.side))
      throw unfit(fmt::format("makes pictures of {} by {} pixels; expected {} by {}", layout.shape[2], layout.shape[3],
                              input_.side * input_.patch_size, input_.side * input_.patch_size));
    return grid;
  }

  // From rows of pixels of each colour to patches, one after another, each colour by colour. Pixels at the right and at
  // the bottom that make no patch are left out, as by a convolution.
  std::vector<float> in_patches(const images::Values& made, const PatchGrid& grid) const {
    const std::int64_t size = input_.patch_size, height = made.layout.shape[2], width = made.layout.shape[3];
    std::vector<float> patches;
    patches.reserve(static_cast<std::size_t>(grid.patches() * input_.values()));
    for (std::int64_t row = 0; row < grid.rows; ++row)
      for (std::int64_t column = 0; column < grid.columns; ++column)
        for (std::int64_t y = 0; y < 3 * size; ++y) {
          const std::int64_t colour = y / size, line = row * size + y % size;
          const float* from = made.values.data() + (colour * height + line) * width + column * size;
          patches.insert(patches.end(), from, from + size);
        }
    return patches;
  }

  PictureInput input_;
  std::unique_ptr<const images::Processor> processor_;
  std::string fingerprint_;
};

}  // namespace

std::shared_ptr<const PictureReader> data::open_pictures(const PictureInput& input,
                                                         const std::filesystem::path& folder) {
  return during("reading how pictures are read in " + folder.string(),
                [&] { return std::make_shared<ModelPictures>(input, folder); });
}

void add_pictures(HostPictures& all, const std::vector<DocPicture>& pictures, std::int64_t row, std::int64_t begin) {
  for (const DocPicture& picture : pictures) {
    Patches made = picture.reader->read(*picture.file);
    if (picture.reader->tokens(made.grid) != picture.tokens)
      throw Error(ErrorKind::data, fmt::format("{}: {} of the model's; expected {}, as when the data were tokenised",
                                               name_of(*picture.file),
                                               counted(picture.reader->tokens(made.grid), "token"), picture.tokens))
          .hint("the picture has changed since: remove the token cache");
    all.width = picture.reader->input().values();
    all.spans.push_back({.row = static_cast<std::int32_t>(row),
                         .begin = static_cast<std::int32_t>(begin + picture.begin),
                         .end = static_cast<std::int32_t>(begin + picture.begin + picture.tokens),
                         .grid = made.grid});
    all.values.insert(all.values.end(), made.values.begin(), made.values.end());
  }
}

}  // namespace hone
