// Elements are cut out by their brackets and quotes alone; what their bytes mean is the parser's matter.
#include "io/json_array.h"

#include <fmt/format.h>

#include <utility>

#include "io/json.h"

namespace hone::io {

CountedBytes::CountedBytes(ByteReader reader) : reader_(std::move(reader)), block_(1 << 16) {
  if (peek() != 0xEF) return;
  for (const int expected : {0xEF, 0xBB, 0xBF})
    if (peek() == expected) take();
  column_ = 1;
}

int CountedBytes::peek() {
  if (at_ == end_) {
    end_ = reader_.read(std::as_writable_bytes(std::span(block_)));
    at_ = 0;
    if (end_ == 0) return -1;
  }
  return static_cast<unsigned char>(block_[at_]);
}

int CountedBytes::take() {
  const int byte = peek();
  if (byte < 0) return byte;
  ++at_;
  ++column_;
  if (byte == '\n') {
    ++line_;
    column_ = 1;
  }
  return byte;
}

int CountedBytes::peek_printing() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') take();
  return peek();
}

JsonArrayReader::JsonArrayReader(const std::string& path, std::function<void()> waiting)
    : JsonArrayReader(ByteReader(path, std::move(waiting))) {}

JsonArrayReader::JsonArrayReader(ByteReader bytes) : path_(bytes.path().string()), bytes_(std::move(bytes)) {}

bool JsonArrayReader::next(nlohmann::ordered_json& element) {
  if (done_ || !at_element()) return false;
  const std::int64_t before = std::exchange(begins_, bytes_.line());
  const std::int64_t column = bytes_.column();
  cut_element();
  element = parse(begins_, column);
  ++index_;
  const bool ends_in_line = bytes_.line() == begins_;
  shares_line_ = (goes_on_in_line() && ends_in_line) || begins_ == before;
  return true;
}

// Goes behind a ',' and looks no further than the line's end: where a program still writes the file, nobody waits for
// the next element to read this one.
bool JsonArrayReader::goes_on_in_line() {
  if (bytes_.peek() != ',') return false;
  bytes_.take();
  after_comma_ = true;
  while (bytes_.peek() == ' ' || bytes_.peek() == '\t' || bytes_.peek() == '\r') bytes_.take();
  const int byte = bytes_.peek();
  return byte >= 0 && byte != '\n' && byte != ']';
}

void JsonArrayReader::fail(const std::string& fact) const {
  throw Error(ErrorKind::data, fmt::format("{}:{}:{}: {}", path_, bytes_.line(), bytes_.column(), fact));
}

// Moves to the first byte of the next element; false: the array has ended and nothing follows it.
bool JsonArrayReader::at_element() {
  if (!begun_) {
    if (bytes_.peek_printing() != '[') fail("expected '['");
    bytes_.take();
    if (bytes_.peek_printing() == ']') return end_of_array();
    begun_ = true;
    return true;
  }
  if (std::exchange(after_comma_, false)) {
    bytes_.peek_printing();
    return true;
  }
  switch (bytes_.peek_printing()) {
    case ']':
      return end_of_array();
    case -1:
      fail("the file ends inside the array; expected ']'");
    default:
      fail("expected ',' or ']'");
  }
}

bool JsonArrayReader::end_of_array() {
  bytes_.take();
  if (bytes_.peek_printing() != -1) fail("something follows the array; expected the end of the file");
  done_ = true;
  return false;
}

// Copies one element's bytes: up to the ',' or ']' that is not inside it.
void JsonArrayReader::cut_element() {
  element_.clear();
  bool in_string = false;
  for (std::int64_t depth = 0;;) {
    const int byte = bytes_.peek();
    if (byte < 0) fail("the file ends inside the array; expected ']'");
    if (!in_string && depth == 0 && (byte == ',' || byte == ']')) return;
    if (!in_string && depth == 0 && byte == '}') fail("expected a value");
    element_.push_back(static_cast<char>(bytes_.take()));
    if (element_.size() > kMaxLine) fail(fmt::format("an element of more than {} bytes", kMaxLine));
    if (in_string && byte == '\\') {
      if (bytes_.peek() >= 0) element_.push_back(static_cast<char>(bytes_.take()));
    } else if (byte == '"') {
      in_string = !in_string;
    } else if (!in_string && (byte == '{' || byte == '[')) {
      ++depth;
    } else if (!in_string && (byte == '}' || byte == ']')) {
      --depth;
    }
  }
}

nlohmann::ordered_json JsonArrayReader::parse(std::int64_t line, std::int64_t column) const {
  JsonLimits limits{.bytes = kMaxLine, .keeps_integers = true};
  try {
    return parse_ordered_json_line(element_, path_, line, limits);
  } catch (const Error&) {
    // Once more, with blanks for what came before it: so the error names the file's own line and column.
    const std::string before = std::string(static_cast<std::size_t>(line - 1), '\n') +
                               std::string(static_cast<std::size_t>(column - 1), ' ');
    limits.bytes += before.size();
    return during(fmt::format("reading the element that begins at {}:{}:{}", path_, line, column),
                  [&] { return parse_ordered_json(before + element_, path_, limits); });
  }
}

}  // namespace hone::io
