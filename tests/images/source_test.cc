// Where pictures come from: files beside the data, data: URLs, bytes; never the web.
#include "images/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "images/goldens.h"
#include "text/formats/base64.h"

namespace hone::images {
namespace {

using json = nlohmann::ordered_json;

class PictureSources : public test::WithFolder {
 protected:
  std::string read(const json& value) const { return picture_bytes(value, folder_.path()); }
  const std::string png_ = picture_file("grey.png"), jpeg_ = picture_file("420.jpg"),
                    webp_ = picture_file("lossy.webp");
};

TEST_F(PictureSources, PathsAreRelativeToTheData) {
  const std::string path = folder_.write("pictures/a b.png", png_).string();
  EXPECT_EQ(read("pictures/a b.png"), png_);
  EXPECT_EQ(picture_bytes(path, "/nowhere"), png_);
  EXPECT_EQ(picture_bytes("file://" + path, "/nowhere"), png_);
  EXPECT_HONE_ERROR(read("pictures/b.png"), data, "b.png: cannot open");
  EXPECT_HONE_ERROR(read("pictures"), data, "not a regular file");
  EXPECT_HONE_ERROR(read(""), data, "expected the name of a file");
  EXPECT_HONE_ERROR(read(std::string("a\0b", 3)), data, "expected the name of a file");
}

TEST_F(PictureSources, NothingWaitsForAPipe) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_HONE_ERROR(read("pipe"), data, "not a regular file");
}

TEST_F(PictureSources, WebAddressesAreToBeDownloadedFirst) {
  for (const char* address : {"http://a.example/x.png", "https://a.example/x.png"})
    EXPECT_HONE_ERROR(read(address), data, "got a web address, expected a file\n  hint: download the pictures first");
  EXPECT_HONE_ERROR(read({{"bytes", nullptr}, {"path", "https://a.example/x.png"}}), data, "got a web address");
}

TEST_F(PictureSources, DataUrlsHoldBase64) {
  for (const std::string* file : {&png_, &jpeg_, &webp_})
    EXPECT_EQ(read("data:image/png;base64," + text::to_base64(*file)), *file);
  std::string broken = text::to_base64(jpeg_);
  ASSERT_EQ(broken.back(), '=');
  broken.insert(20, "\r\n ");
  while (broken.back() == '=') broken.pop_back();
  EXPECT_EQ(read("data:image/jpeg;base64," + broken), jpeg_);
  EXPECT_HONE_ERROR(read("data:image/png;base64,!!"), data, "a data: URL: not base64");
  EXPECT_HONE_ERROR(read("data:image/png,abc"), data, "expected data:image/…;base64,…");
  EXPECT_HONE_ERROR(read("data:text/plain;base64,abcd"), data, "got \"data:text/plain;base64\"");
  EXPECT_HONE_ERROR(read("data:"), data, "expected data:image/");
}

TEST_F(PictureSources, BytesCountBeforeThePath) {
  folder_.write("x.png", png_);
  for (const std::string* file : {&png_, &jpeg_, &webp_}) {
    EXPECT_EQ(read({{"bytes", *file}, {"path", "x.png"}}), *file);                   // as Parquet has them
    EXPECT_EQ(read({{"bytes", text::to_base64(*file)}, {"path", nullptr}}), *file);  // as JSON has them
  }
  EXPECT_EQ(read({{"bytes", nullptr}, {"path", "x.png"}}), png_);
  EXPECT_EQ(read({{"path", "x.png"}}), png_);
  EXPECT_HONE_ERROR(read({{"bytes", nullptr}, {"path", nullptr}}), data, "got neither bytes nor a path");
  EXPECT_HONE_ERROR(read({{"bytes", 3}}), data, "bytes: got number, expected a string");
  EXPECT_HONE_ERROR(read({{"path", "x.png"}, {"url", ""}}), data, "got the key \"url\", expected bytes and path");
  EXPECT_HONE_ERROR(read(3), data, "a picture: got number");
  EXPECT_HONE_ERROR(read({{"bytes", "not base64!"}}), data, "bytes: not base64");
}

TEST_F(PictureSources, OfALargeJpegTheFirstBytesSayItsSize) {
  constexpr std::size_t kHead = 65536;
  const auto head_of = [&](const std::string& content) { return header_bytes(folder_.write("x", content)); };
  EXPECT_EQ(head_of(jpeg_), jpeg_);
  const std::string large = jpeg_ + std::string(100'000, 'x');
  EXPECT_EQ(head_of(large), large.substr(0, kHead));
  EXPECT_EQ(extent_of(head_of(large)), extent_of(jpeg_));
  // Behind two comments of 64 kB the size comes too late.
  std::string late = jpeg_;
  for (int i = 0; i < 2; ++i) late.insert(2, "\xff\xfe\xff\xff" + std::string(65533, 'c'));
  EXPECT_EQ(head_of(late), late);
  EXPECT_EQ(extent_of(late), extent_of(jpeg_));
  const std::string png = png_ + std::string(100'000, 'x');
  EXPECT_EQ(head_of(png), png);
  EXPECT_HONE_ERROR(header_bytes(folder_ / "none"), data, "none: cannot open");
}

TEST(PictureName, SaysWhatAMessageNeeds) {
  EXPECT_EQ(picture_name("a/b.png"), "a/b.png");
  EXPECT_EQ(picture_name("data:image/png;base64," + std::string(1378, 'A')), "a data: URL of 1.4 kB");
  EXPECT_EQ(picture_name({{"bytes", std::string(2000, 'x')}, {"path", nullptr}}), "a picture of 2.0 kB");
  EXPECT_EQ(picture_name({{"bytes", "x"}, {"path", "c.jpg"}}), "c.jpg");
  EXPECT_EQ(picture_name(nullptr), "a picture that is null");
}

}  // namespace
}  // namespace hone::images
