// YAML to nodes and back, by yaml-cpp's events: aliases are bounded, merge keys refused, every value knows its line.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "config/tree.h"
#include "hone/config_read.h"

namespace hone::config {
namespace {

constexpr std::size_t kMaxYamlDepth = 60, kMaxNodes = 1'000'000, kMaxYamlBytes = 16'000'000;
constexpr std::size_t kMaxKey = 200;  // bytes: YAML takes keys of at most 1,024, and \x16 is four

struct RefusedYaml {
  std::string fact;
  int line;
};

// Builds the tree; a bad document ends in RefusedYaml.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string file) : file_(std::move(file)) {}
  Node take() { return std::move(root_); }
  int begins() const { return begins_; }  // the line

  void OnDocumentStart(const YAML::Mark& mark) override { begins_ = mark.line + 1; }
  void OnDocumentEnd() override {}
  // An empty value's mark is where the next one begins: its key knows better.
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const bool keyed = !frames_.empty() && frames_.back().has_key;
    add(Node(), keyed ? frames_.back().key_mark : mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw RefusedYaml{"an alias inside its own anchor", mark.line + 1};
    count_ += values_in(found->second);
    Node copy = found->second;
    add(std::move(copy), mark, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool quoted = tag == "!";
    if (tag.size() > 1 && tag != "?" && tag != "tag:yaml.org,2002:str")
      throw RefusedYaml{"the tag " + tag + " is not supported", mark.line + 1};
    // yaml-cpp takes \N and \_ for single bytes.
    if (first_bad_utf8(text))
      throw RefusedYaml{"the escapes \\N and \\_ are not supported; write \\u0085 and \\u00a0", mark.line + 1};
    const bool null = !quoted && (text == "~" || text == "null");
    add(null ? Node() : Node::scalar(text, quoted || tag == "tag:yaml.org,2002:str"), mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::list(), mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::map(), mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor;
    std::string key = "";
    std::set<std::string> keys = {};  // of a map, so far
    bool has_key = false;
    YAML::Mark key_mark = {};
  };

  void open(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (frames_.size() >= kMaxYamlDepth) throw RefusedYaml{"nested too deeply", mark.line + 1};
    if (!frames_.empty() && frames_.back().node.is_map() && !frames_.back().has_key)
      throw RefusedYaml{"a key that is no plain text", mark.line + 1};
    node.set_mark({file_, mark.line + 1});
    frames_.push_back({.node = std::move(node), .anchor = anchor});
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    place(std::move(frame.node), frame.anchor);
  }

  void add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (++count_ > kMaxNodes) throw RefusedYaml{"more than a million values", mark.line + 1};
    node.set_mark({file_, mark.line + 1});
    if (!frames_.empty() && frames_.back().node.is_map() && !frames_.back().has_key) return set_key(node, mark);
    place(std::move(node), anchor);
  }

  void set_key(const Node& node, const YAML::Mark& mark) {
    Frame& frame = frames_.back();
    if (node.kind() != Node::Kind::scalar)
      throw RefusedYaml{"a key that is no plain text; a text that begins with { is written in quotes", mark.line + 1};
    if (node.text().size() > kMaxKey)
      throw RefusedYaml{fmt::format("a key of {} bytes; at most {}", node.text().size(), kMaxKey), mark.line + 1};
    if (node.text() == "<<")
      throw RefusedYaml{"merge keys (<<) are not supported; write the options out", mark.line + 1};
    if (!frame.keys.insert(node.text()).second)
      throw RefusedYaml{"\"" + escape_for_terminal(node.text()) + "\" is given twice", mark.line + 1};
    frame.key = node.text();
    frame.has_key = true;
    frame.key_mark = mark;
  }

  void place(Node node, YAML::anchor_t anchor) {
    if (anchor) anchors_[anchor] = node;
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (frames_.back().node.is_map()) {
      frames_.back().node.entries().emplace_back(std::move(frames_.back().key), std::move(node));
      frames_.back().has_key = false;
    } else {
      frames_.back().node.items().push_back(std::move(node));
    }
  }

  std::string file_;
  Node root_;
  int begins_ = 1;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t count_ = 0;
};

// yaml-cpp's parser recurses; brackets are counted before it sees them.
bool too_deep(const std::string& text) {
  std::size_t depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  std::size_t dashes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {  // "- - - - x" nests as well
    if (text[i] == '-')
      deepest = std::max(deepest, ++dashes);
    else if (text[i] == '\n' || (text[i] != ' ' && text[i] != '-'))
      dashes = 0;
  }
  return deepest > kMaxYamlDepth * 4;
}

// Text that YAML reads as it is wherever it stands: no mark of YAML's own, none of the marks of a document.
bool plain(const std::string& text) {
  static const std::string safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/";
  if (text.empty() || text.size() > 200 || text.find_first_not_of(safe + ".+-") != std::string::npos) return false;
  return safe.find(text[0]) != std::string::npos || (text.size() > 1 && safe.find(text[1]) != std::string::npos);
}

// Text that without quotes is, or looks like, something else than text.
bool has_meaning(const std::string& text) {
  static const std::set<std::string> words = {"true", "false", "null", "~", "yes", "no", "on", "off", "???"};
  return words.count(to_lower(text)) || parse_double(text) || std::isdigit(static_cast<unsigned char>(text[0])) ||
         text.find_first_of("-.+") == 0;
}

std::string scalar_text(const Node& node) {
  const std::string& text = node.text();
  if (node.quoted() ? plain(text) && !has_meaning(text) : plain(text) || parse_double(text) || text == "???")
    return text;
  std::string out = "\"";
  for (const unsigned char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c < 0x20 || c == 0x7f)
      out += "\\x" + std::string{"0123456789abcdef"[c >> 4]} + "0123456789abcdef"[c & 15];
    else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

std::string key_text(const std::string& key) { return scalar_text(Node::scalar(key, true)); }

void emit(const Node& node, std::size_t indent, std::string& out, bool after_dash);

void emit_below(const Node& node, std::size_t indent, std::string& out) {
  const bool empty = node.entries().empty() && node.items().empty();
  if (node.is_null())
    out += " null\n";
  else if (node.kind() == Node::Kind::scalar)
    out += " " + scalar_text(node) + "\n";
  else if (empty)
    out += node.is_map() ? " {}\n" : " []\n";
  else
    out += "\n", emit(node, indent, out, false);
}

void emit(const Node& node, std::size_t indent, std::string& out, bool after_dash) {
  for (const auto& [key, entry] : node.entries()) {
    out += (after_dash ? "" : std::string(indent, ' ')) + key_text(key) + ":";
    emit_below(entry, indent + 2, out);
    after_dash = false;
  }
  for (const Node& item : node.items()) {
    out += (after_dash ? "" : std::string(indent, ' ')) + "-";
    after_dash = false;
    if ((item.is_map() || item.kind() == Node::Kind::list) && (!item.entries().empty() || !item.items().empty()))
      out += " ", emit(item, indent + 2, out, true);
    else
      emit_below(item, indent + 2, out);
  }
}

// Whether the line's indentation has a tab.
bool tab_before(const std::string& text, int line) {
  std::size_t at = 0;
  for (; line > 0 && at != std::string::npos; --line) at = text.find('\n', at), at += at != std::string::npos;
  const std::size_t end = at == std::string::npos ? at : text.find_first_not_of(" \t", at);
  return at != std::string::npos && text.substr(at, end == std::string::npos ? end : end - at).find('\t') !=
                                        std::string::npos;
}

}  // namespace

Node parse_yaml(const std::string& text, const std::string& file, Problems& problems) {
  const auto refuse = [&](const std::string& fact, int line) {
    problems.add("", fact, "", {file, line});
    return Node();
  };
  if (text.size() > kMaxYamlBytes) return refuse("more than 16 MB", 1);
  if (const auto bad = first_bad_utf8(text))
    return refuse("not UTF-8", 1 + static_cast<int>(std::count(
                                       text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n')));
  if (text.find('\0') != std::string::npos) return refuse("contains a NUL", 1);
  if (too_deep(text)) return refuse("nested too deeply", 1);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Builder builder(file);
    if (!parser.HandleNextDocument(builder)) return {};
    Node root = builder.take();
    Builder more(file);
    if (parser.HandleNextDocument(more)) return refuse("more than one document", more.begins());
    return root;
  } catch (const RefusedYaml& refused) {
    return refuse(refused.fact, refused.line);
  } catch (const YAML::Exception& error) {
    const std::string fact = tab_before(text, error.mark.line)
                                 ? "a tab before the line's text; YAML is indented by blanks alone"
                                 : "not YAML: " + error.msg;
    return refuse(fact, error.mark.line + 1);
  }
}

std::string to_yaml(const Node& node) {
  std::string out;
  if (node.is_map() || node.kind() == Node::Kind::list) {
    if (node.entries().empty() && node.items().empty()) return node.is_map() ? "{}\n" : "[]\n";
    emit(node, 0, out, false);
    return out;
  }
  return (node.is_null() ? "null" : scalar_text(node)) + "\n";
}

}  // namespace hone::config
