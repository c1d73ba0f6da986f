// JSON to nodes and back: an own small parser, because numbers keep their text and every value its line.
#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::config {
namespace {

constexpr int kMaxJsonDepth = 60;
constexpr std::size_t kMaxJsonBytes = 16'000'000;

struct RefusedJson {
  std::string fact;
};

// Recursive descent, at most kMaxJsonDepth deep.
class JsonParser {
 public:
  JsonParser(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  Node whole() {
    Node node = value(0);
    blanks();
    if (at_ != text_.size()) throw RefusedJson{"more after the end of the value"};
    return node;
  }
  int line() const { return line_; }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'))
      line_ += text_[at_++] == '\n';
  }
  char peek() {
    blanks();
    if (at_ == text_.size()) throw RefusedJson{"ends too early"};
    return text_[at_];
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Mark mark() const { return {file_, line_}; }

  Node value(int depth) {
    if (depth > kMaxJsonDepth) throw RefusedJson{"nested too deeply"};
    const char c = peek();
    if (c == '{') return object(depth);
    if (c == '[') return array(depth);
    if (c == '"') return Node::scalar(string(), true, mark());
    return word();
  }

  Node object(int depth) {
    Node node = Node::map({}, mark());
    std::set<std::string> seen;
    take('{');
    if (take('}')) return node;
    do {
      if (peek() != '"') throw RefusedJson{"expected a key in double quotes"};
      std::string key = string();
      if (!seen.insert(key).second) throw RefusedJson{"the key " + hone::quoted(key) + " is given twice"};
      if (!take(':')) throw RefusedJson{"expected ':' after the key " + hone::quoted(key)};
      node.entries().emplace_back(std::move(key), value(depth + 1));
    } while (take(','));
    if (!take('}')) throw RefusedJson{"expected ',' or '}'"};
    return node;
  }

  Node array(int depth) {
    Node node = Node::list({}, mark());
    take('[');
    if (take(']')) return node;
    do node.items().push_back(value(depth + 1));
    while (take(','));
    if (!take(']')) throw RefusedJson{"expected ',' or ']'"};
    return node;
  }

  // The string's text between its quotes; escapes are left to nlohmann, which checks them and the UTF-8.
  std::string string() {
    const std::size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size() || text_[at_] != '"') throw RefusedJson{"a string without its closing quote"};
    ++at_;
    const auto parsed = nlohmann::json::parse(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                              text_.begin() + static_cast<std::ptrdiff_t>(at_), nullptr, false);
    if (!parsed.is_string()) throw RefusedJson{"a string with a wrong escape or byte"};
    std::string text = parsed.get<std::string>();
    if (text.find('\0') != std::string::npos) throw RefusedJson{"a string with a NUL"};
    return text;
  }

  Node word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-' ||
                                  text_[at_] == '+' || text_[at_] == '.'))
      ++at_;
    const std::string text = text_.substr(begin, at_ - begin);
    if (text == "null") {
      Node null;
      null.set_mark(mark());
      return null;
    }
    const bool known = text == "true" || text == "false" || nlohmann::json::accept(text);
    // Python writes these; what they mean is decided by the reader of the number, which refuses them.
    const bool python = text == "NaN" || text == "Infinity" || text == "-Infinity";
    if (text.empty() || !(known || python))
      throw RefusedJson{"expected a value, got " + hone::quoted(text_.substr(begin, 12))};
    Node node = Node::scalar(text, false, mark());
    return node;
  }

  const std::string& text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

bool is_json_word(const std::string& text) { return text == "true" || text == "false" || nlohmann::json::accept(text); }

void emit(const Node& node, int indent, int depth, std::string& out) {
  const std::string line = indent < 0 ? "" : "\n" + std::string(static_cast<std::size_t>(indent * (depth + 1)), ' ');
  const std::string end = indent < 0 ? "" : "\n" + std::string(static_cast<std::size_t>(indent * depth), ' ');
  const std::string comma = indent < 0 ? ", " : ",";
  switch (node.kind()) {
    case Node::Kind::null:
      out += "null";
      return;
    case Node::Kind::scalar:
      out += !node.quoted() && is_json_word(node.text())
                 ? node.text()
                 : nlohmann::json(node.text()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      return;
    case Node::Kind::list: {
      if (node.items().empty()) {
        out += "[]";
        return;
      }
      out += "[";
      bool first = true;
      for (const Node& item : node.items()) {
        out += (first ? "" : comma) + line;
        emit(item, indent, depth + 1, out);
        first = false;
      }
      out += end + "]";
      return;
    }
    case Node::Kind::map: {
      if (node.entries().empty()) {
        out += "{}";
        return;
      }
      out += "{";
      bool first = true;
      for (const auto& [key, entry] : node.entries()) {
        out += (first ? "" : comma) + line +
               nlohmann::json(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ": ";
        emit(entry, indent, depth + 1, out);
        first = false;
      }
      out += end + "}";
      return;
    }
  }
}

}  // namespace

Node parse_json(const std::string& text, const std::string& file, Problems& problems) {
  JsonParser parser(text, file);
  try {
    if (text.size() > kMaxJsonBytes) throw RefusedJson{"more than 16 MB"};
    return parser.whole();
  } catch (const RefusedJson& refused) {
    problems.add("", "not JSON: " + refused.fact, "", {file, parser.line()});
    return {};
  }
}

std::string to_json(const Node& node, int indent) {
  std::string out;
  emit(node, indent, 0, out);
  return out + (indent < 0 ? "" : "\n");
}

}  // namespace hone::config
