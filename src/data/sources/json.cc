// A JSON array of objects (their fields make the records) or of strings (their text), streamed element by element.
#include <fmt/format.h>

#include <vector>

#include "data/fields.h"
#include "hone/registry.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::sources {
namespace {

constexpr std::size_t kBlock = 1 << 16;

// The decompressed bytes of a file one by one, with line and column; a byte order mark is dropped.
class Bytes {
 public:
  Bytes(const std::string& path, std::function<void()> waiting) : reader_(path, std::move(waiting)) {
    if (peek() == 0xEF) {
      for (const int expected : {0xEF, 0xBB, 0xBF})
        if (peek() == expected) take();
      column_ = 1;
    }
  }
  int peek() {  // -1: the end
    if (at_ == end_) {
      end_ = reader_.read(std::as_writable_bytes(std::span(block_)));
      at_ = 0;
      if (end_ == 0) return -1;
    }
    return static_cast<unsigned char>(block_[at_]);
  }
  int take() {
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
  int peek_printing() {  // skips white space
    while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') take();
    return peek();
  }
  std::int64_t line() const { return line_; }
  std::int64_t column() const { return column_; }

 private:
  io::ByteReader reader_;
  std::vector<char> block_ = std::vector<char>(kBlock);
  std::size_t at_ = 0, end_ = 0;
  std::int64_t line_ = 1, column_ = 1;
};

class JsonArray final : public Source {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  JsonArray(const Config&, const SourceFile& file) : path_(file.path), fields_(file), bytes_(file.path, file.waiting) {}

  bool next(Record& record) override {
    if (done_ || !at_element()) return false;
    const std::int64_t line = bytes_.line(), column = bytes_.column();
    cut_element();
    fields_.read(parse(line, column), {path_, line}, record);
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::data, fmt::format("{}:{}:{}: {}", path_, bytes_.line(), bytes_.column(), fact));
  }

  // Moves to the first byte of the next element; false: the array has ended and nothing follows it.
  bool at_element() {
    if (!begun_) {
      if (bytes_.peek_printing() != '[') fail("expected '['");
      bytes_.take();
      if (bytes_.peek_printing() == ']') return end_of_array();
      begun_ = true;
      return true;
    }
    switch (bytes_.peek_printing()) {
      case ',':
        bytes_.take();
        break;
      case ']':
        return end_of_array();
      case -1:
        fail("the file ends inside the array; expected ']'");
      default:
        fail("expected ',' or ']'");
    }
    bytes_.peek_printing();
    return true;
  }
  bool end_of_array() {
    bytes_.take();
    if (bytes_.peek_printing() != -1) fail("something follows the array; expected the end of the file");
    done_ = true;
    return false;
  }

  // Copies one element's bytes: up to the ',' or ']' that is not inside it. What they mean is the parser's matter.
  void cut_element() {
    element_.clear();
    bool in_string = false;
    for (std::int64_t depth = 0;;) {
      const int byte = bytes_.peek();
      if (byte < 0) fail("the file ends inside the array; expected ']'");
      if (!in_string && depth == 0 && (byte == ',' || byte == ']')) return;
      if (!in_string && depth == 0 && byte == '}') fail("expected a value");
      element_.push_back(static_cast<char>(bytes_.take()));
      if (element_.size() > io::kMaxLine) fail(fmt::format("an element of more than {} bytes", io::kMaxLine));
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

  nlohmann::ordered_json parse(std::int64_t line, std::int64_t column) const {
    io::JsonLimits limits{.bytes = io::kMaxLine};
    try {
      return io::parse_ordered_json_line(element_, path_, line, limits);
    } catch (const Error&) {
      // Once more, with blanks for what came before it: so the error names the file's own line and column.
      const std::string before = std::string(static_cast<std::size_t>(line - 1), '\n') +
                                 std::string(static_cast<std::size_t>(column - 1), ' ');
      limits.bytes += before.size();
      return during(fmt::format("reading the element that begins at {}:{}:{}", path_, line, column),
                    [&] { return io::parse_ordered_json(before + element_, path_, limits); });
    }
  }

  std::string path_, element_;
  data::FieldMap fields_;
  Bytes bytes_;
  bool begun_ = false, done_ = false;
};

}  // namespace

void register_json(Registries& hone) {
  hone.sources.add<JsonArray>("json", "A JSON array of objects, or of strings of text.");
}

}  // namespace hone::sources
