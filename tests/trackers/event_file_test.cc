// TensorBoard's event files: checksums, the reference's bytes, what is cut off or damaged.
#include "trackers/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/files.h"
#include "trackers/checksum.h"

namespace hone::trackers {
namespace {

constexpr double kWall = 1700000000.25;  // of tools/golden/golden_tensorboard.py

std::string torchs_file() { return test::content_of(test::golden("trackers/tensorboard.tfevents")); }

std::vector<Event> events_of(const std::string& file) {
  std::vector<Event> events;
  each_event(file, [&](const Event& event) { events.push_back(event); });
  return events;
}

// Where its records begin, and where the last one ends.
std::vector<std::size_t> bounds_of(const std::string& file) {
  std::vector<std::size_t> bounds{0};
  while (bounds.back() < file.size())
    bounds.push_back(bounds.back() + 16 + static_cast<unsigned char>(file[bounds.back()]) +
                     256 * static_cast<unsigned char>(file[bounds.back() + 1]));
  return bounds;
}

std::string framed(const std::string& content) {
  const auto number = [](std::uint64_t value, int size) {
    std::string bytes;
    for (; size-- > 0; value >>= 8) bytes += static_cast<char>(value);
    return bytes;
  };
  const auto checksum = [&](const std::string& of) { return number(std::rotr(crc32c(of), 15) + 0xA282EAD8u, 4); };
  const std::string length = number(content.size(), 8);
  return length + checksum(length) + content + checksum(content);
}

// RFC 3720, appendix B.4; and the check value of the catalogues.
TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113FDB5Cu);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, RecordsAreTorchsByteForByte) {
  const std::string torchs = torchs_file();
  const std::string ours = start_record({kWall, 8}) + scalar_record({kWall, 0}, "train/loss", 2.5) +
                           scalar_record({kWall + 1, 100}, "eval/loss", 1.0 / 3) +
                           scalar_record({kWall + 2, 200}, "train/grad_norm", std::nan("")) +
                           scalar_record({kWall + 3, 300}, "train/loss", -std::numeric_limits<double>::infinity()) +
                           scalar_record({kWall + 4, 400}, "train/tokens", 1e300) +
                           scalar_record({kWall + 5, 500}, "train/größe", 0) +
                           text_record({kWall + 0.5, 300}, "config", "    run: {seed: 1}\n");
  EXPECT_EQ(torchs.substr(bounds_of(torchs).at(2)), ours);
}

// The reference's have its writer's name, or a step, as well.
TEST(EventFile, TheFirstRecordIsTheVersion) {
  const std::string made = version_record(kWall);
  EXPECT_EQ(made, framed(made.substr(12, 9) + "\x1A\x0D" + "brain.Event:2"));
  EXPECT_EQ(made.substr(12, 24), torchs_file().substr(12, 24));
}

TEST(EventFile, ReadsWhatTorchWrites) {
  const std::vector<Event> events = events_of(torchs_file());
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_FALSE(events[1].is_start);
  EXPECT_TRUE(events[2].is_start);
  EXPECT_EQ(events[2].place.step, 8);
  const Event& evaluation = events[4];
  EXPECT_EQ(evaluation.place.wall, kWall + 1);
  EXPECT_EQ(evaluation.place.step, 100);
  ASSERT_EQ(evaluation.values.size(), 1u);
  EXPECT_EQ(evaluation.values[0].tag, "eval/loss");
  EXPECT_EQ(evaluation.values[0].number, 1.0f / 3);
  EXPECT_TRUE(std::isnan(events[5].values.at(0).number.value()));
  EXPECT_EQ(events[9].values.at(0).tag, "config");
  EXPECT_EQ(events[9].values.at(0).text, "    run: {seed: 1}\n");
  EXPECT_FALSE(events[9].values.at(0).number);
}

TEST(EventFile, ARecordThatIsCutOffEndsIt) {
  const std::string file = torchs_file();
  const std::vector<std::size_t> bounds = bounds_of(file);
  std::size_t whole = 0;
  for (std::size_t size = 0; size <= file.size(); ++size) {
    if (size == bounds.at(whole + 1)) ++whole;
    EXPECT_EQ(events_of(file.substr(0, size)).size(), whole) << size;
  }
  EXPECT_EQ(whole, 10u);
}

TEST(EventFile, ADamagedByteEndsIt) {
  const std::string file = torchs_file();
  const std::vector<std::size_t> bounds = bounds_of(file);
  for (std::size_t at = 0, record = 0; at < file.size(); ++at) {
    if (at == bounds.at(record + 1)) ++record;
    for (const int bit : {0, 3, 7}) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      EXPECT_EQ(events_of(damaged).size(), record) << at;
    }
  }
}

// Right checksums around what is no message, as another program may write it.
TEST(EventFile, AMessageThatIsNoneIsReadAsFarAsItGoes) {
  const std::string record = text_record({kWall, 300}, "config", "a text");
  const std::string message = record.substr(12, record.size() - 16);
  for (std::size_t size = 0; size <= message.size(); ++size)
    EXPECT_EQ(events_of(framed(message.substr(0, size)) + record).size(), 2u);
  for (const char byte : {'\x00', '\x03', '\x0F', '\x2A', '\xFF'})
    EXPECT_EQ(events_of(framed(std::string(40, byte)) + record).size(), 2u);
  EXPECT_TRUE(events_of(std::string(100, '\0')).empty());
}

TEST(EventFile, TagsAndTextsAreUtf8) {
  const std::string file = scalar_record({kWall, 1}, "train/\xFF", 1) + text_record({kWall, 1}, "config", "\xC3");
  const std::vector<Event> events = events_of(file);
  EXPECT_EQ(events.at(0).values.at(0).tag, "train/\xEF\xBF\xBD");
  EXPECT_EQ(events.at(1).values.at(0).text, "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace hone::trackers
