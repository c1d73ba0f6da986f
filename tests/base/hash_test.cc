// XXH3 against its published value; streaming equals one piece.
#include "base/hash.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "harness/files.h"

namespace hone {
namespace {

TEST(Hash, IsXxh3) {  // XXH3-64 and 128 of the empty input, from xxHash's own documentation and tests
  EXPECT_EQ(hex64(hash64("")), "2d06800538d394c2");
  EXPECT_EQ(hash128_hex(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text.push_back(static_cast<char>(i * 7 % 251));
  Hasher hasher;
  for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size * 3 % 4099 + 1)
    hasher.update(std::string_view(text).substr(at, size));
  EXPECT_EQ(hasher.digest64(), hash64(text));
  EXPECT_EQ(hasher.digest128_hex(), hash128_hex(text));
  hasher.reset();
  EXPECT_EQ(hasher.digest64(), hash64(""));
}

TEST(Hash, FieldsDoNotRunTogether) {
  Hasher a, b;
  a.update_field("ab").update_field("c");
  b.update_field("a").update_field("bc");
  EXPECT_NE(a.digest64(), b.digest64());
}

TEST(Hash, OfAFileIsOfItsContent) {
  const test::TempFolder folder;
  const std::string text(3'000'000, 'x');
  EXPECT_EQ(hash_file(folder.write("a", text)), hash128_hex(text));
  EXPECT_HONE_ERROR(hash_file(folder.path()), data, "not a regular file");
  EXPECT_HONE_ERROR(hash_file(folder / "missing"), data, "No such file");
}

}  // namespace
}  // namespace hone
