// TFRecord frames (length, checksum, content, checksum) and the messages in them.
#include "trackers/event_file.h"

#include <bit>

#include "base/strings.h"
#include "trackers/checksum.h"
#include "trackers/protobuf.h"

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

constexpr const char* kTextTag = "/text_summary";  // behind the tag of a text, as torch.utils.tensorboard writes it
constexpr std::size_t kFrame = 12;                 // before a record's content: length and its checksum

// As it is stored beside what it is of: a checksum of bytes with their own checksum in them says little.
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string record(std::string_view content) {
  const std::string length = little_endian(content.size(), 8);
  return length + little_endian(masked_crc(length), 4) + std::string(content) + little_endian(masked_crc(content), 4);
}

std::string placed(EventPlace place) {
  std::string event = real_field(kWallTime, place.wall);
  if (place.step != 0) event += int_field(kStep, static_cast<std::uint64_t>(place.step));  // 0 is what is not there
  return event;
}

std::string value_record(EventPlace place, const std::string& value) {
  return record(placed(place) + bytes_field(kSummary, bytes_field(kValue, value)));
}

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

std::string version_record(double wall) { return record(placed({wall, 0}) + bytes_field(kVersion, "brain.Event:2")); }

std::string start_record(EventPlace place) {
  return record(placed(place) + bytes_field(kSessionLog, int_field(kStatus, kStarted)));
}

std::string scalar_record(EventPlace place, std::string_view tag, double value) {
  return value_record(place,
                      bytes_field(kTag, with_replaced_utf8(tag)) + real_field(kNumber, static_cast<float>(value)));
}

std::string text_record(EventPlace place, std::string_view tag, std::string_view text) {
  const std::string tensor = int_field(kType, kTypeString) +
                             bytes_field(kShape, bytes_field(kDimension, int_field(kSize, 1))) +
                             bytes_field(kString, with_replaced_utf8(text));
  return value_record(place, bytes_field(kTag, with_replaced_utf8(tag) + kTextTag) + bytes_field(kTensor, tensor) +
                                 bytes_field(kMetadata, bytes_field(kPlugin, bytes_field(kPluginName, "text"))));
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
