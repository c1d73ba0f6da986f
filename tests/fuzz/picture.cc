// Files of pictures: what is decoded has the size that its header says, upright.
#include "images/picture.h"

#include "fuzz/fuzz.h"
#include "hone/error.h"

namespace {

// A decoder may well take its time over many pixels; what is looked for is found with few.
constexpr std::int64_t kFew = 1 << 20;

}  // namespace

HONE_FUZZ(picture) {
  const hone::images::Extent extent = hone::images::extent_of(input);
  if (extent.pixels() > kFew) return;
  const hone::images::Picture picture = hone::images::decode(input);
  hone::fuzz::require(picture.extent() == extent, "a picture has the size that its header says");
}
