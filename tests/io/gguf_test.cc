// GGUF files, read back.
#include "io/gguf.h"

#include <gmock/gmock.h>

#include <array>

#include "harness/files.h"
#include "io/gguf_reader.h"

namespace hone::test {
namespace {

using io::GgufKeys;
using io::GgufTensor;
using io::GgufType;
using io::GgufWriter;

class Gguf : public testing::Test {
 protected:
  TempFolder temp_;
  Folder folder_ = Env::process().open_folder(temp_.path());
  std::string path() const { return (temp_.path() / "a.gguf").string(); }
};

TEST_F(Gguf, HoldsKeysOfEveryTypeAndTensorsInTheirPlaces) {
  GgufKeys keys;
  keys.set(io::kGgufMaker, std::string("1"));
  keys.set("a.number", std::uint32_t{7});
  keys.set("a.signed", std::int32_t{-7});
  keys.set("a.float", 0.5f);
  keys.set("a.flag", true);
  keys.set("a.text", std::string("t\xC3\xA4xt"));
  keys.set("a.texts", std::vector<std::string>{"x", "", "yz"});
  keys.set("a.numbers", std::vector<std::int32_t>{1, -2});
  keys.set("a.floats", std::vector<float>{0.25f});
  keys.set("a.flags", std::vector<bool>{true, false});
  keys.set("a.bytes", std::vector<std::uint8_t>{255});
  keys.set("a.number", std::uint32_t{8});  // takes the earlier one's place
  const std::vector<GgufTensor> tensors{{"one", GgufType::f32, {1}}, {"two", GgufType::f16, {2, 3}}};
  GgufWriter writer(folder_.create("a.gguf"), keys, tensors);
  const float one = 1.5f;
  writer.write(std::as_bytes(std::span(&one, 1)));
  const std::array<std::uint16_t, 6> two{1, 2, 3, 4, 5, 6};
  writer.write(std::as_bytes(std::span(two)).first(4));
  writer.write(std::as_bytes(std::span(two)).subspan(4));
  writer.finish();
  const ReadGguf read(path());
  EXPECT_EQ(read.first_key, io::kGgufMaker);
  EXPECT_EQ(read.keys.size(), 11u);
  EXPECT_EQ(read.keys.at("a.number"), 8);
  EXPECT_EQ(read.keys.at("a.signed"), -7);
  EXPECT_EQ(read.keys.at("a.float"), 0.5);
  EXPECT_EQ(read.keys.at("a.flag"), true);
  EXPECT_EQ(read.keys.at("a.text"), "t\xC3\xA4xt");
  EXPECT_EQ(read.keys.at("a.texts"), (nlohmann::json{"x", "", "yz"}));
  EXPECT_EQ(read.keys.at("a.numbers"), (nlohmann::json{1, -2}));
  EXPECT_EQ(read.keys.at("a.floats"), (nlohmann::json{0.25}));
  EXPECT_EQ(read.keys.at("a.flags"), (nlohmann::json{true, false}));
  EXPECT_EQ(read.keys.at("a.bytes"), (nlohmann::json{255}));
  EXPECT_EQ(read.tensors.at("two").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read.tensors.at("two").place, 32u);
  EXPECT_EQ(read.bytes_of("one", 4), std::string(reinterpret_cast<const char*>(&one), 4));
  EXPECT_EQ(read.bytes_of("two", 12), std::string(reinterpret_cast<const char*>(two.data()), 12));
  EXPECT_EQ(read.data.size(), 64u);  // the last one is padded, too
}

TEST_F(Gguf, IsKnownAgainByItsFirstKey) {
  GgufKeys keys;
  keys.set(io::kGgufMaker, std::string("1"));
  GgufWriter(folder_.create("ours.gguf"), keys, {}).finish();
  GgufWriter(folder_.create("others.gguf"), GgufKeys(), {}).finish();
  folder_.write_file("short", "GGUF");
  folder_.write_file("text", std::string(1000, 'x'));
  EXPECT_EQ(io::why_not_our_gguf(folder_, "ours.gguf"), "");
  for (const char* name : {"others.gguf", "short", "text"}) EXPECT_NE(io::why_not_our_gguf(folder_, name), "") << name;
}

}  // namespace
}  // namespace hone::test
