// Pictures of records: where they are, and what a model reads of them. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/error.h"

namespace hone {

// A picture's file (JPEG, PNG or WebP): where it is, or what is in it.
struct PictureFile {
  std::string path = {}, bytes = {};  // one of the two
};

// How many patches a picture becomes.
struct PatchGrid {
  std::int64_t frames = 1, rows = 0, columns = 0;
  std::int64_t patches() const { return frames * rows * columns; }
  bool operator==(const PatchGrid&) const = default;
};

// What texts have in the place of a picture besides the tokens that stand for it. framed: "\n\n", PictureInput::before,
// the picture, PictureInput::after, "\n\n" (Gemma 3). tiled: names of its tiles by row and column, before all of it in
// one (Idefics 3). rows: [IMG_BREAK] behind each row of its tokens, [IMG_END] behind the last one (Pixtral); they count
// among its tokens. named: names of its tiles likewise, between a token before all of them and one behind (LFM2-VL).
// bracketed: the two tokens alone (InternVL, Gemma 4).
enum class PictureWords { none, framed, tiled, rows, named, bracketed };

// What a model says of the pictures that it reads.
struct PictureInput {
  std::int32_t token = -1;      // stands in texts for what it reads of a picture, once for each of that
  std::int64_t patch_size = 1;  // pixels of a patch's side
  std::int64_t frames = 1;      // of a patch: a picture that is repeated so often
  std::int64_t merged = 1;      // rows, and columns, of patches that are one token
  std::int64_t more = 0;        // tokens besides, such as one for all of a picture
  std::int64_t side = 0;        // patches in a row and in a column of every picture, or tile of one; 0: any
  PictureWords words = PictureWords::none;
  // Of framed ones, where `before` alone is what a text has for a picture, and of bracketed ones, where `token` is.
  std::int32_t before = -1, after = -1;
  // Stand in texts for films and for sounds, which no model here reads: no text may have them. -1: there are none.
  std::int32_t film = -1, sound = -1;
  // Whether tiles are one stretch of tokens (LLaVA-NeXT): all of the picture, then its tiles put together, of which
  // each row has one token more at its end.
  bool joined = false;
  std::int64_t values() const { return 3 * frames * patch_size * patch_size; }  // of a patch
  // Of a picture of such a grid, or a tile of one, that is not joined.
  std::int64_t tokens_of(const PatchGrid& grid) const {
    const std::int64_t vectors = grid.patches() / (merged * merged);
    return vectors + more + (words == PictureWords::rows ? grid.rows / merged : 0);
  }
};

// What a picture is cut into: rows and columns of tiles, and behind them all of it in one; 0: there is that one alone.
// Of joined ones also how many rows, or columns, of patches show nothing of the picture, at each of two sides.
struct TileGrid {
  std::int64_t rows = 0, columns = 0;
  std::int64_t cut_rows = 0, cut_columns = 0;
  bool tiles_alone = false;  // without all of it in one behind them
  PatchGrid whole = {};      // of that one, where its grid is another than a tile's (LFM2-VL)
  std::int64_t tiles() const { return rows * columns + (tiles_alone ? 0 : 1); }
  // Of one of them; tile: what a tile's is.
  const PatchGrid& grid_of(std::int64_t index, const PatchGrid& tile) const {
    return index == rows * columns && whole.rows > 0 ? whole : tile;
  }
  // Of a joined picture whose tiles have such a grid.
  std::int64_t joined_tokens(const PatchGrid& tile) const {
    return tile.patches() + (rows * tile.rows - 2 * cut_rows) * (columns * tile.columns - 2 * cut_columns + 1);
  }
  bool operator==(const TileGrid&) const = default;
};

// A picture as a model reads it: patches, one after the other in the order that the model has them; where it is cut
// into tiles those of one after those of another, all of this grid but for TileGrid::whole.
struct Patches {
  PatchGrid grid;
  std::vector<float> values;
  TileGrid tiles = {};
};

// Reads pictures as a model wants them. Immutable: any thread may call any member.
class HONE_API PictureReader {
 public:
  virtual ~PictureReader() = default;
  virtual const PictureInput& input() const = 0;
  // Of a picture of which no more is read than its size: the patches that read() will give, and the tokens that they
  // become. Both throw Error(data) that says which picture.
  virtual PatchGrid grid(const PictureFile& file) const = 0;  // of a tile, where it is cut into some
  virtual std::int64_t tokens(const PatchGrid& grid) const = 0;
  virtual TileGrid tiles(const PictureFile& /*file*/) const { return {}; }  // likewise; what is read may be cut
  virtual Patches read(const PictureFile& file) const = 0;
  virtual std::string fingerprint() const = 0;  // of its settings: keys the token cache
};

// A picture of a document, or a tile of one: it takes the place of tokens [begin, begin + tokens), whose ids are
// PictureInput::token. All tiles of a picture are there, one behind another, with the same file.
struct DocPicture {
  std::int64_t begin = 0, tokens = 0;
  std::shared_ptr<const PictureFile> file = {};
  std::shared_ptr<const PictureReader> reader = {};
  std::int64_t tile = 0;
  std::string place = {};  // whose it is, for messages: "data/train.jsonl:17"
};

// A picture of a batch, or a tile of one: it takes the place of tokens [begin, end) of a row. Patches of all follow one
// another.
struct PictureSpan {
  std::int32_t row = 0, begin = 0, end = 0;
  PatchGrid grid = {};
  TileGrid tiles = {};  // of a joined one
  std::int64_t patches() const { return tiles.tiles() * grid.patches(); }
};
struct HostPictures {
  std::vector<PictureSpan> spans = {};  // in the order of (row, begin)
  std::int64_t width = 0;               // values of a patch
  std::vector<float> values = {};       // [patches, width]
};
// A document with its pictures, which begins at `begin` of a row.
struct PicturedDoc {
  std::span<const DocPicture> pictures = {};
  std::int64_t row = 0, begin = 0;
};
// Reads the pictures of documents, several at a time, and puts them behind the others in the order of the documents.
// Throws Error(data) that says whose the first one is that cannot be read.
HONE_API void add_pictures(HostPictures& all, const std::vector<PicturedDoc>& docs);

}  // namespace hone
