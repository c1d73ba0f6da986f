// Pictures as a model's folder says that it reads them, and pictures of a batch.
#include "data/picture_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/cpus.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/strings.h"
#include "base/threads.h"
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
  ModelPictures(const PictureInput& input, std::filesystem::path folder) : input_(input), folder_(std::move(folder)) {
    Hasher hasher;
    std::error_code ignored;
    if (std::filesystem::is_directory(folder_, ignored))
      for (const auto& [name, content] : images::processor_files(folder_))
        hasher.update_field(name).update_field(content);
    for (const std::int64_t number :
         {std::int64_t{input.token}, input.patch_size, input.frames, input.merged, input.more, input.side,
          static_cast<std::int64_t>(input.words), std::int64_t{input.before}, std::int64_t{input.after},
          std::int64_t{input.joined}})
      hasher.update_int(static_cast<std::uint64_t>(number));
    fingerprint_ = hasher.digest128_hex();
  }

  const PictureInput& input() const override { return input_; }
  PatchGrid grid(const PictureFile& file) const override { return grid_of(layout_of(file)); }
  TileGrid tiles(const PictureFile& file) const override { return tiles_of(layout_of(file)); }
  std::int64_t tokens(const PatchGrid& grid) const override { return input_.tokens_of(grid); }
  Patches read(const PictureFile& file) const override {
    const images::Processor& how = processor();
    return with_bytes(file, FilePart::whole, [&](std::string_view bytes) {
      images::Values made = how.process_file(bytes);
      const PatchGrid grid = grid_of(made.layout);
      if (made.layout.grid[0] > 0) return Patches{grid, std::move(made.values), tiles_of(made.layout)};
      return Patches{grid, in_patches(made, grid), tiles_of(made.layout)};
    });
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  // Opened when the first picture comes: texts alone ask for none.
  const images::Processor& processor() const {
    const std::lock_guard lock(mutex_);
    if (processor_) return *processor_;
    auto opened = during("reading how pictures are read in " + folder_.string(),
                         [&] { return images::open_processor(folder_, images::Use::among_words); });
    if (opened->cuts_long_pictures())
      throw Error(ErrorKind::config, fmt::format("{}: do_pan_and_scan: got true, expected false: no place of a text is "
                                                 "for parts of a picture",
                                                 folder_.string()))
          .hint("set it to false in preprocessor_config.json, as transformers does where nobody asks for it");
    processor_ = std::move(opened);
    return *processor_;
  }

  images::Layout layout_of(const PictureFile& file) const {
    const images::Processor& how = processor();
    return with_bytes(file, FilePart::header, [&](std::string_view bytes) { return how.layout_of(bytes); });
  }

  TileGrid tiles_of(const images::Layout& layout) const {
    TileGrid tiles{layout.rows, layout.columns};
    tiles.tiles_alone = tiles.tiles() == layout.tiles + 1;
    tiles.whole = {layout.whole[0], layout.whole[1], layout.whole[2]};
    if (input_.joined && layout.upright.width > 0) cut_bars(layout.upright, tiles);
    return tiles;
  }

  // What a picture of another shape leaves empty, as transformers counts it.
  void cut_bars(const images::Extent& picture, TileGrid& tiles) const {
    const auto all_rows = static_cast<double>(tiles.rows * input_.side),
               all_columns = static_cast<double>(tiles.columns * input_.side);
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    const auto whole = [](double number) {  // of seven digits
      return static_cast<std::int64_t>(std::stod(fmt::format("{:.7f}", number)));
    };
    if (width / height > all_columns / all_rows)
      tiles.cut_rows = (static_cast<std::int64_t>(all_rows) - whole(height * (all_columns / width))) / 2;
    else
      tiles.cut_columns = (static_cast<std::int64_t>(all_columns) - whole(width * (all_rows / height))) / 2;
  }

  Error unfit(const std::string& fact) const {
    return Error(ErrorKind::config, fmt::format("the image processor ({}) {}", processor_->type(), fact))
        .hint("preprocessor_config.json and config.json must be of one model");
  }

  bool reads_tiles() const {
    return input_.joined || input_.words == PictureWords::tiled || input_.words == PictureWords::named ||
           input_.words == PictureWords::bracketed;
  }
  bool is_merged_whole(const PatchGrid& grid) const {
    return grid.rows % input_.merged == 0 && grid.columns % input_.merged == 0;
  }

  PatchGrid grid_of(const images::Layout& layout) const {
    const TileGrid tiles = tiles_of(layout);
    const bool is_known_kind = layout.tiles == (reads_tiles() ? tiles.tiles() : 1);
    if (layout.grid[0] > 0) {
      const PatchGrid grid{layout.grid[0], layout.grid[1], layout.grid[2]};
      if (!is_known_kind || layout.shape.size() != 2 || layout.shape[1] != input_.values() || !is_merged_whole(grid) ||
          !is_merged_whole(tiles.whole))
        throw unfit(fmt::format("makes patches that the model, of {} values each, does not read", input_.values()));
      return grid;
    }
    if (!is_known_kind || layout.shape.size() != 4 || input_.frames != 1)
      throw unfit("makes several pictures of one, or none of patches; the model reads another kind");
    const std::int64_t height = layout.shape[2], width = layout.shape[3], unit = input_.patch_size * input_.merged;
    const PatchGrid grid{1, height / input_.patch_size, width / input_.patch_size};
    if (input_.side > 0 && (grid.rows != input_.side || grid.columns != input_.side))
      throw unfit(fmt::format("makes pictures of {} by {} pixels; expected {} by {}", height, width,
                              input_.side * input_.patch_size, input_.side * input_.patch_size));
    if (input_.side == 0 && (height % unit != 0 || width % unit != 0))
      throw unfit(fmt::format("makes pictures of {} by {} pixels; expected multiples of {}", height, width, unit));
    return grid;
  }

  // From rows of pixels of each colour to patches, one after another, each colour by colour. Pixels at the right and at
  // the bottom that make no patch are left out, as by a convolution.
  std::vector<float> in_patches(const images::Values& made, const PatchGrid& grid) const {
    const std::int64_t size = input_.patch_size, height = made.layout.shape[2], width = made.layout.shape[3];
    std::vector<float> patches;
    patches.reserve(static_cast<std::size_t>(made.layout.tiles * grid.patches() * input_.values()));
    for (std::int64_t tile = 0; tile < made.layout.tiles; ++tile)
      for (std::int64_t row = 0; row < grid.rows; ++row)
        for (std::int64_t column = 0; column < grid.columns; ++column)
          for (std::int64_t y = 0; y < 3 * size; ++y) {
            const std::int64_t colour = 3 * tile + y / size, line = row * size + y % size;
            const float* from = made.values.data() + (colour * height + line) * width + column * size;
            patches.insert(patches.end(), from, from + size);
          }
    return patches;
  }

  PictureInput input_;
  std::filesystem::path folder_;
  std::string fingerprint_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const images::Processor> processor_;
};

// A picture of a batch, all of its tiles.
struct PictureReading {
  std::span<const DocPicture> tiles;
  std::int64_t row = 0, begin = 0;
  Patches made = {};
  std::exception_ptr failure = {};

  void run() {
    try {
      const DocPicture& first = tiles[0];
      const auto work = [&] {
        made = first.reader->read(*first.file);
        check();
      };
      first.place.empty() ? work() : during(first.place, work);
    } catch (...) {  // crosses to the thread that asks for the batch
      failure = std::current_exception();
    }
  }

 private:
  void check() const {
    const DocPicture& first = tiles[0];
    const bool joined = first.reader->input().joined;
    const auto changed = [&](const std::string& fact) {
      return Error(ErrorKind::data, fmt::format("{}: {}, as when the data were tokenised", name_of(*first.file), fact))
          .hint("the picture has changed since: remove the token cache");
    };
    if (!joined && made.tiles.tiles() != std::ssize(tiles))
      throw changed(fmt::format("{}; expected {}", counted(made.tiles.tiles(), "tile"), tiles.size()));
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const PatchGrid& grid = made.tiles.grid_of(static_cast<std::int64_t>(i), made.grid);
      const std::int64_t tokens = joined ? made.tiles.joined_tokens(grid) : first.reader->tokens(grid);
      if (tokens != tiles[i].tokens)
        throw changed(fmt::format("{} of the model's; expected {}", counted(tokens, "token"), tiles[i].tokens));
    }
  }
};

// In their order.
std::vector<PictureReading> picture_readings(const std::vector<PicturedDoc>& docs) {
  std::vector<PictureReading> all;
  for (const PicturedDoc& doc : docs)
    for (std::size_t i = 0; i < doc.pictures.size();) {
      std::size_t end = i + 1;
      while (end < doc.pictures.size() && doc.pictures[end].tile > 0) ++end;
      all.push_back({doc.pictures.subspan(i, end - i), doc.row, doc.begin});
      i = end;
    }
  return all;
}

// By as many threads as there are processors; each takes the next that nobody has taken.
void read_pictures(std::vector<PictureReading>& readings) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < readings.size();) readings[i].run();
  };
  std::vector<Worker> others;
  const auto threads = static_cast<std::size_t>(threads_by_cpu(cpus()));
  for (std::size_t i = 1; i < std::min(threads, readings.size()); ++i) others.emplace_back("pictures", work);
  work();
  for (Worker& other : others) other.join();
}

}  // namespace

std::shared_ptr<const PictureReader> data::open_pictures(const PictureInput& input,
                                                         const std::filesystem::path& folder) {
  return std::make_shared<ModelPictures>(input, folder);
}

void add_pictures(HostPictures& all, const std::vector<PicturedDoc>& docs) {
  std::vector<PictureReading> readings = picture_readings(docs);
  read_pictures(readings);
  for (PictureReading& one : readings) {
    if (one.failure) std::rethrow_exception(one.failure);
    all.width = one.tiles[0].reader->input().values();
    const TileGrid& tiles = one.made.tiles;
    for (const DocPicture& tile : one.tiles)
      all.spans.push_back({.row = static_cast<std::int32_t>(one.row),
                           .begin = static_cast<std::int32_t>(one.begin + tile.begin),
                           .end = static_cast<std::int32_t>(one.begin + tile.begin + tile.tokens),
                           .grid = tiles.grid_of(tile.tile, one.made.grid),
                           .tiles = tile.reader->input().joined ? tiles : TileGrid()});
    all.values.insert(all.values.end(), one.made.values.begin(), one.made.values.end());
    one.made.values = {};
  }
}

}  // namespace hone
