// Scores have the bits that the reference gives them.
#include "text/parts/score.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace hone::text {
namespace {

std::uint64_t bits_of(const char* text) { return std::bit_cast<std::uint64_t>(read_score(text).value()); }

// What serde_json 1.0 makes of them: where 53 bits do not hold the digits, not always the nearest double.
TEST(Score, RoundsAsTheReference) {
  EXPECT_EQ(bits_of("-12.130167007446289"), 0xc02842a53fffffffu) << "the nearest ends in 540000000";
  EXPECT_EQ(bits_of("-9.931743621826172"), 0xc023dd0d80000000u);
  EXPECT_EQ(bits_of("0.1234567890123456789012345"), 0x3fbf9add3746f65fu)
      << "digits that 64 bits do not hold are dropped";
  EXPECT_EQ(bits_of("123456789012345678901234567890"), 0x45f8ee90ff6c373eu);
  EXPECT_EQ(bits_of("123456789.123456789123456789e-20"), 0x3d75b7ffdee64a79u);
  EXPECT_EQ(bits_of("1.8446744073709551616e19"), 0x43f0000000000000u);
  EXPECT_EQ(bits_of("1E+2"), 0x4059000000000000u);
  EXPECT_EQ(bits_of("-0.0"), 0x8000000000000000u);
  EXPECT_EQ(bits_of("-5e-324"), 0x8000000000000001u);
}

TEST(Score, IsAFiniteNumber) {
  for (const char* text : {"", "-", "1e999", "nan", "inf", "1x", "1e", "--1"}) EXPECT_FALSE(read_score(text)) << text;
}

}  // namespace
}  // namespace hone::text
