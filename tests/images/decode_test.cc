// Decoding: the bytes that Pillow gives for every form of file, and one clear error for the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cpu_time.h"
#include "harness/errors.h"
#include "images/goldens.h"
#include "images/orientation.h"

namespace hone::images {
namespace {

TEST(Decode, GivesPillowsBytes) {
  const Safetensors golden(images_golden("decoded.safetensors"));
  ASSERT_GT(golden.tensors().size(), 40u);
  for (const TensorInfo& tensor : golden.tensors()) {
    SCOPED_TRACE(tensor.name);
    expect_picture(decode(picture_file(tensor.name)), tensor.shape, values_of<std::uint8_t>(golden, tensor));
  }
}

TEST(Decode, KnowsTheUprightSizeFromTheHeader) {
  const Safetensors golden(images_golden("decoded.safetensors"));
  for (const TensorInfo& tensor : golden.tensors()) {
    SCOPED_TRACE(tensor.name);
    const std::string file = picture_file(tensor.name);
    EXPECT_EQ(extent_of(file), (Extent{tensor.shape[0], tensor.shape[1]}));
  }
}

TEST(Decode, RefusesOtherFormatsByTheirNames) {
  EXPECT_HONE_ERROR(decode(picture_file("refused.gif")), data, "got a GIF file; expected a JPEG, PNG or WebP picture");
  EXPECT_HONE_ERROR(decode(picture_file("refused.bmp")), data, "got a BMP file");
  EXPECT_HONE_ERROR(decode(picture_file("animated.webp")), data, "an animated WebP; expected a still picture");
  EXPECT_HONE_ERROR(decode("<svg width='3'>"), data, "got an SVG file");
  EXPECT_HONE_ERROR(decode("hello\x01 world"), data, R"(no picture; it begins with "hello\x01 w")");
  EXPECT_HONE_ERROR(decode(""), data, "an empty file");
  EXPECT_HONE_ERROR(extent_of("nothing"), data, "no picture");
}

// Wherever a file ends, its reader finds out; none of its bytes is read behind that.
TEST(Decode, FindsEveryEndThatComesTooSoon) {
  for (const char* name : {"420.jpg", "progressive.jpg", "grey.jpg", "palette.png", "interlaced.png", "rgba-16.png",
                           "lossy.webp", "lossless.webp", "alpha.webp"}) {
    const std::string whole = picture_file(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string cut = whole.substr(0, length);
      // Of a WebP the last byte may be one that pads.
      if (length + 1 == whole.size() && whole.starts_with("RIFF")) continue;
      EXPECT_THROW(decode(std::string_view(cut)), Error) << name << ", first " << length << " bytes";
    }
  }
}

std::string big_number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

TEST(Decode, RefusesBombsBeforeAnythingIsDecoded) {
  std::string png = picture_file("rgb.png");
  png.replace(16, 8, big_number(60000) + big_number(60000));
  EXPECT_HONE_ERROR(decode(png), data, "got a picture of 60000 x 60000 pixels, expected at most 89478485");
  png.replace(16, 8, big_number(70000) + big_number(1));
  EXPECT_HONE_ERROR(extent_of(png), data, "70000 x 1 pixels, expected at most 89478485 and 65535 on a side");
  png.replace(16, 8, big_number(0xffffffff) + big_number(0xffffffff));
  EXPECT_HONE_ERROR(decode(png), data, "4294967295");
  // A text of 2 GB, as its chunk says.
  std::string text = picture_file("xmp.png");
  text.replace(text.find("iTXt") - 4, 4, big_number(0x7fffffff));
  EXPECT_LT(test::cpu_seconds_of([&] { EXPECT_HONE_ERROR(decode(text), data, "the file ends too soon"); }), 0.1);
  png.replace(16, 8, big_number(0) + big_number(5));
  EXPECT_HONE_ERROR(decode(png), data, "0 x 5");
}

TEST(Decode, SaysWhatIsDamaged) {
  std::string png = picture_file("rgb.png");
  png[60] = static_cast<char>(png[60] ^ 1);
  EXPECT_HONE_ERROR(decode(png), data, "a damaged PNG: ");
  png = picture_file("rgb.png");
  png[32] = static_cast<char>(png[32] ^ 1);  // the header's checksum
  EXPECT_HONE_ERROR(decode(png), data, "a damaged PNG: IHDR: CRC error");
  const std::string jpeg = picture_file("420.jpg");
  EXPECT_HONE_ERROR(decode(std::string_view(jpeg).substr(0, jpeg.size() / 2)), data,
                    "a damaged JPEG: the file ends too soon");
  EXPECT_HONE_ERROR(decode(std::string_view(jpeg).substr(0, jpeg.size() - 2)), data, "the file ends too soon");
  const std::string webp = picture_file("lossy.webp");
  EXPECT_HONE_ERROR(decode(std::string_view(webp).substr(0, webp.size() / 2)), data,
                    "a damaged WebP: the file ends too soon");
}

// Chunks begin at even places.
TEST(Orientation, OfAWebpStandsBehindWhatElseThereIs) {
  std::string webp = picture_file("turned.webp");
  const Extent turned = extent_of(webp);
  webp.insert(webp.find("EXIF"), std::string("ABCD\3\0\0\0xyz\0", 12));
  webp[4] = static_cast<char>(webp[4] + 12);
  EXPECT_EQ(extent_of(webp), turned);
  EXPECT_NE(turned, (Extent{turned.width, turned.height}));
}

TEST(Orientation, IsOneWhereTheDataAreDamaged) {
  EXPECT_EQ(orientation_of("", ""), 1);
  EXPECT_EQ(orientation_of("II*", ""), 1);
  EXPECT_EQ(orientation_of(std::string_view("MM\0*\xff\xff\xff\xff", 8), ""), 1);
  EXPECT_EQ(orientation_of(std::string_view("II*\0\x08\0\0\0\xff\xff", 10), "tiff:Orientation=\"6\""), 6);
  EXPECT_EQ(orientation_of("", "tiff:Orientation=\"9\""), 1);
  EXPECT_EQ(orientation_of("", "tiff:Orientation tiff:Orientation>2<"), 2);
}

}  // namespace
}  // namespace hone::images
