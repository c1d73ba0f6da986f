// Pictures of records: where they are, and what a model reads of them. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hone/error.h"

namespace hone {

// A picture's file (JPEG, PNG or WebP): where it is, or what is in it.
struct PictureFile {
  std::string path = {}, bytes = {};  // one of the two
};

// What a model says of the pictures that it reads.
struct PictureInput {
  std::int32_t token = -1;      // stands in texts for what it reads of a picture, once for each of that
  std::int64_t patch_size = 1;  // pixels of a patch's side
  std::int64_t frames = 1;      // of a patch: a picture that is repeated so often
  std::int64_t merged = 1;      // rows, and columns, of patches that are one token
  std::int64_t more = 0;        // tokens besides, such as one for all of a picture
  std::int64_t side = 0;        // patches in a row and in a column of every picture; 0: any
  std::int64_t values() const { return 3 * frames * patch_size * patch_size; }  // of a patch
};

// How many patches a picture becomes.
struct PatchGrid {
  std::int64_t frames = 1, rows = 0, columns = 0;
  std::int64_t patches() const { return frames * rows * columns; }
  bool operator==(const PatchGrid&) const = default;
};

// A picture as a model reads it: patches, one after the other in the order that the model has them.
struct Patches {
  PatchGrid grid;
  std::vector<float> values;
};

// Reads pictures as a model wants them. Immutable: any thread may call any member.
class HONE_API PictureReader {
 public:
  virtual ~PictureReader() = default;
  virtual const PictureInput& input() const = 0;
  // Of a picture of which no more is read than its size: the patches that read() will give, and the tokens that they
  // become. Both throw Error(data) that says which picture.
  virtual PatchGrid grid(const PictureFile& file) const = 0;
  virtual std::int64_t tokens(const PatchGrid& grid) const = 0;
  virtual Patches read(const PictureFile& file) const = 0;
  virtual std::string fingerprint() const = 0;  // of its settings: keys the token cache
};

// A picture of a document: it takes the place of tokens [begin, begin + tokens), whose ids are PictureInput::token.
struct DocPicture {
  std::int64_t begin = 0, tokens = 0;
  std::shared_ptr<const PictureFile> file = {};
  std::shared_ptr<const PictureReader> reader = {};
};

// A picture of a batch: it takes the place of tokens [begin, end) of a row. Patches of all pictures follow one another.
struct PictureSpan {
  std::int32_t row = 0, begin = 0, end = 0;
  PatchGrid grid = {};
};
struct HostPictures {
  std::vector<PictureSpan> spans = {};  // in the order of (row, begin)
  std::int64_t width = 0;               // values of a patch
  std::vector<float> values = {};       // [patches, width]
};
// Reads a document's pictures, which begins at `begin` of a row, and puts them behind the others. Throws Error(data).
HONE_API void add_pictures(HostPictures& all, const std::vector<DocPicture>& pictures, std::int64_t row,
                           std::int64_t begin);

}  // namespace hone
