// TFRecord frames (length, checksum, content, checksum) and protobuf's wire format, without protobuf.
#include "trackers/event_file.h"

#include <array>
#include <bit>

#include "base/strings.h"

namespace hone::trackers {
namespace {

// Numbers of fields in TensorFlow's event.proto, summary.proto, tensor.proto and tensor_shape.proto.
enum EventField { kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kNumber = 2, kTensor = 8, kMetadata = 9 };
enum TensorField { kType = 1, kShape = 2, kString = 8 };
enum ShapeField { kDimension = 2, kSize = 1 };
enum MetadataField { kPlugin = 1, kPluginName = 1 };
enum SessionField { kStatus = 1 };
constexpr std::uint64_t kStarted = 1, kTypeString = 7;

enum Wire : std::uint64_t { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

constexpr const char* kTextTag = "/text_summary";  // behind the tag of a text, as torch.utils.tensorboard writes it
constexpr std::size_t kFrame = 12;                 // before a record's content: length and its checksum

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[byte] = crc;
  }
  return table;
}

// As it is stored beside what it is of: a checksum of bytes with their own checksum in them says little.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string record(std::string_view content) {
  const std::string length = little_endian(content.size(), 8);
  return length + little_endian(masked_crc(length), 4) + std::string(content) + little_endian(masked_crc(content), 4);
}

// -------------------------------------------------------------------------------------------------- fields of messages
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(std::uint64_t field, Wire wire) { return varint(field << 3 | wire); }
std::string whole(std::uint64_t field, std::uint64_t value) { return key(field, kVarint) + varint(value); }
std::string bytes(std::uint64_t field, std::string_view content) {
  return key(field, kBytes) + varint(content.size()) + std::string(content);
}
std::string real(std::uint64_t field, double value) {
  return key(field, kEight) + little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string real(std::uint64_t field, float value) {
  return key(field, kFour) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

std::string placed(EventPlace place) {
  std::string event = real(kWallTime, place.wall);
  if (place.step != 0) event += whole(kStep, static_cast<std::uint64_t>(place.step));  // 0 is what is not there
  return event;
}

std::string value_record(EventPlace place, const std::string& value) {
  return record(placed(place) + bytes(kSummary, bytes(kValue, value)));
}

// The fields of a message, one after the other, up to its end or to what is none.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}
  std::uint64_t number = 0;
  std::uint64_t value = 0;   // of a varint, or the bits of a real
  std::string_view content;  // of bytes
  bool next() {
    std::uint64_t key = 0;
    if (!take_varint(key)) return false;
    number = key >> 3;
    switch (key & 7) {
      case kVarint:
        return take_varint(value);
      case kEight:
        return take_fixed(8);
      case kFour:
        return take_fixed(4);
      case kBytes:
        return take_varint(value) && take(value);
      default:
        return false;
    }
  }

 private:
  bool take(std::uint64_t size) {
    if (size > left_.size()) return false;
    content = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  bool take_fixed(std::uint64_t size) {
    if (!take(size)) return false;
    value = from_little_endian(content);
    return true;
  }
  bool take_varint(std::uint64_t& result) {
    result = 0;
    for (int shift = 0; shift < 64 && take(1); shift += 7) {
      const auto byte = static_cast<unsigned char>(content[0]);
      result |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  std::string_view left_;
};

Event::Value read_value(std::string_view message) {
  Event::Value value;
  for (Fields field(message); field.next();) {
    if (field.number == kTag) value.tag = field.content;
    if (field.number == kNumber) value.number = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number != kTensor) continue;
    for (Fields tensor(field.content); tensor.next();)
      if (tensor.number == kString) value.text = tensor.content;
  }
  if (value.tag.ends_with(kTextTag)) value.tag.resize(value.tag.size() - std::string_view(kTextTag).size());
  return value;
}

Event read_event(std::string_view message) {
  Event event;
  for (Fields field(message); field.next();) {
    if (field.number == kWallTime) event.place.wall = std::bit_cast<double>(field.value);
    if (field.number == kStep) event.place.step = static_cast<std::int64_t>(field.value);
    if (field.number == kVersion) event.version = field.content;
    if (field.number == kSummary)
      for (Fields summary(field.content); summary.next();)
        if (summary.number == kValue) event.values.push_back(read_value(summary.content));
    if (field.number == kSessionLog)
      for (Fields session(field.content); session.next();)
        if (session.number == kStatus) event.is_start = session.value == kStarted;
  }
  return event;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string version_record(double wall) { return record(placed({wall, 0}) + bytes(kVersion, "brain.Event:2")); }

std::string start_record(EventPlace place) {
  return record(placed(place) + bytes(kSessionLog, whole(kStatus, kStarted)));
}

std::string scalar_record(EventPlace place, std::string_view tag, double value) {
  return value_record(place, bytes(kTag, with_replaced_utf8(tag)) + real(kNumber, static_cast<float>(value)));
}

std::string text_record(EventPlace place, std::string_view tag, std::string_view text) {
  const std::string tensor = whole(kType, kTypeString) + bytes(kShape, bytes(kDimension, whole(kSize, 1))) +
                             bytes(kString, with_replaced_utf8(text));
  return value_record(place, bytes(kTag, with_replaced_utf8(tag) + kTextTag) + bytes(kTensor, tensor) +
                                 bytes(kMetadata, bytes(kPlugin, bytes(kPluginName, "text"))));
}

void each_event(std::string_view file, const std::function<void(const Event&)>& visit) {
  while (file.size() >= kFrame) {
    const std::string_view length = file.substr(0, 8);
    const std::uint64_t size = from_little_endian(length);
    if (masked_crc(length) != from_little_endian(file.substr(8, 4))) return;
    if (size > file.size() - kFrame || file.size() - kFrame - size < 4) return;
    const std::string_view content = file.substr(kFrame, size);
    if (masked_crc(content) != from_little_endian(file.substr(kFrame + size, 4))) return;
    visit(read_event(content));
    file.remove_prefix(kFrame + size + 4);
  }
}

}  // namespace hone::trackers
