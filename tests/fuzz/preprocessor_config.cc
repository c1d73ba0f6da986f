// preprocessor_config.json: a processor that was made lays out pictures of every shape, and makes as many numbers.
#include <filesystem>

#include "fuzz/fuzz.h"
#include "hone/error.h"
#include "images/processor.h"

namespace {

void try_picture(const hone::images::Processor& processor, const hone::images::Extent& extent) {
  try {
    const hone::images::Layout layout = processor.layout(extent);
    std::int64_t numbers = 1;
    for (const std::int64_t size : layout.shape) numbers *= size;
    hone::fuzz::require(numbers > 0, "a picture becomes numbers");
    if (numbers > 1 << 18 || extent.pixels() > 1 << 12) return;
    hone::images::Picture picture(extent);
    for (std::int64_t i = 0; i < extent.pixels() * 3; ++i) picture.row(0)[i] = static_cast<std::uint8_t>(i * 7);
    const hone::images::Values made = processor.process(picture);
    hone::fuzz::require(made.layout == layout, "the layout is known before");
    hone::fuzz::require(static_cast<std::int64_t>(made.values.size()) == numbers, "there are as many numbers");
  } catch (const hone::Error& error) {
    if (error.kind() == hone::ErrorKind::bug) throw;
  }
}

}  // namespace

HONE_FUZZ(preprocessor_config) {
  const std::filesystem::path file = hone::fuzz::file_of("preprocessor_config.json", input);
  const auto processor = hone::images::open_processor(file.parent_path());
  for (const hone::images::Extent& extent : {hone::images::Extent{13, 21}, {1, 1}, {30, 2}, {1, 65535}, {9000, 9000}})
    try_picture(*processor, extent);
}
