// Options are known by the last name of their path; lists and the named sets of data.eval are what they are in.
#include "config/home.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/strings.h"

namespace hone::config {
namespace {

using Names = std::span<const std::string_view>;

// Sections are named by what they may be in one word.
constexpr std::array<std::string_view, 13> kOfRecipes = {
    "cache", "chat_template", "eval",    "folder", "image_folder", "model", "path",
    "reference", "run",       "teacher", "test",   "tokenizer",    "train"};
constexpr std::array<std::string_view, 12> kOfFlags = {"adapter", "chat_template", "config",      "data",
                                                       "from",    "image",         "image_folder", "json_schema",
                                                       "logits",  "out",           "prompts",     "set"};
constexpr std::array<std::string_view, 3> kWithSets = {"eval", "files", "test"};

bool is_in(Names names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

class Expander {
 public:
  Expander(Names names, bool of_flags, Problems& problems) : names_(names), of_flags_(of_flags), problems_(problems) {}

  void walk(Node& node, const std::string& path, bool is_path) {
    if (node.kind() == Node::Kind::scalar && is_path) expand(node, path);
    for (auto& [key, entry] : node.entries()) walk(entry, path.empty() ? key : path + "." + key, takes(path, key));
    for (std::size_t i = 0; i < node.items().size(); ++i)
      walk(node.items()[i], fmt::format("{}.{}", path, i), is_path);
  }

 private:
  // The names of sets are any.
  bool takes(const std::string& path, const std::string& key) const {
    const std::string last = path.substr(path.rfind('.') + 1);
    return is_in(names_, key) || (of_flags_ && is_in(kOfRecipes, key)) ||
           (path.starts_with("data.") && is_in(kWithSets, last));
  }
  // Only flags name a set before its file.
  void expand(Node& node, const std::string& path) {
    if (!of_flags_ && !node.text().starts_with("~/")) return;
    if (const auto expanded = with_home(node.text()))
      node = Node::scalar(*expanded, node.quoted(), node.mark());
    else
      problems_.add(path,
                    fmt::format("got {}, and HOME is not set; expected a path without ~", hone::quoted(node.text())),
                    "", node.mark());
  }

  const Names names_;
  const bool of_flags_;
  Problems& problems_;
};

// Where the ~ of a path would stand: at its begin, or behind a name.
std::size_t begin_of_path(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals == std::string::npos || text.find('/') < equals ? 0 : equals + 1;
}

}  // namespace

std::optional<std::string> with_home(const std::string& path) {
  const std::size_t begin = begin_of_path(path);
  if (path.compare(begin, 2, "~/") != 0) return path;
  const char* home = std::getenv("HOME");
  if (!home || *home == '\0') return std::nullopt;
  return path.substr(0, begin) + home + path.substr(begin + 1);
}

void expand_home(Node& root, Problems& problems) { Expander(kOfRecipes, false, problems).walk(root, "", false); }

void expand_home_of_flags(Node& root, Problems& problems) { Expander(kOfFlags, true, problems).walk(root, "", false); }

}  // namespace hone::config
