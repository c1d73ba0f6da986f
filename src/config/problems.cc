// Problems, their lines and the one Error they become; the catalogues of choices.
#include <fmt/format.h>

#include <mutex>

#include "base/strings.h"
#include "hone/config_parts.h"

namespace hone::config {

std::string Mark::text() const {
  if (line > 0) return file + ":" + std::to_string(line);
  return file;
}

// Of the last value on the way that knows it; what is not there would be in its section.
Mark Problems::written_at(const std::string& path) const {
  Mark found;
  const std::string full = prefix_ + path;
  std::string_view way = std::string_view(full).substr(above_node_);
  for (const Node* at = node_; at;) {
    if (!at->mark().file.empty()) found = at->mark();
    if (way.empty()) break;
    const std::string_view part = detail::take_part(way);
    const std::size_t index = detail::index_in(part, at->items().size());
    at = index < at->items().size() ? &at->items()[index] : at->find(part);
  }
  return found;
}

std::string Problems::line_of(const std::string& path, const std::string& fact, const std::string& suggestion,
                              const Mark& given) const {
  const std::string name = escape_for_terminal(prefix_ + path, 600);
  const Mark at = given.file.empty() ? written_at(path) : given;
  const std::string where = at.text();
  // A flag names its option by itself: the path would say it twice.
  const std::string written = at.line == 0 && where.starts_with("--") ? replace_all(where.substr(2), "-", "_") : "";
  const std::string plain = replace_all(name, "-", "_");
  const bool flag = !written.empty() && (written == plain || written.ends_with("." + plain));
  std::string line = flag ? where : where.empty() ? name : name.empty() ? where : where + ": " + name;
  line += ": " + fact;
  if (!suggestion.empty()) line += "; did you mean " + suggestion + "?";
  return line;
}

void Problems::add(const std::string& path, const std::string& fact, const std::string& suggestion, const Mark& at) {
  lines_.push_back(line_of(path, fact, suggestion, at));
}

void Problems::note(const std::string& path, const std::string& fact, const Mark& at) {
  notes_.push_back(line_of(path, fact, "", at));
}

// Who writes an option on the command line or into the environment wants it.
void Problems::add_unknown(const std::string& path, const std::string& suggestion, const Mark& at) {
  const bool typed = at.line == 0 && !at.file.empty();
  auto& lines = passes_over_unknown_ && !typed ? passed_over_ : lines_;
  lines.push_back(line_of(path, "no such option", suggestion, at));
}

void Problems::require(bool holds, const std::string& path, const std::string& fact) {
  if (!holds) add(path, fact);
}

void Problems::raise(const std::string& subject, ErrorKind kind) const {
  if (lines_.empty()) return;
  std::string text = lines_.size() == 1 ? fmt::format("1 problem in {}", subject)
                                        : fmt::format("{} problems in {}", lines_.size(), subject);
  for (const std::string& line : lines_) text += "\n  " + line;
  throw Error(kind, text);
}

std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  return hone::nearest(name, known);
}

namespace {
std::mutex catalogue_mutex;
std::map<std::string, const Catalogue*, std::less<>>& catalogues() {
  static std::map<std::string, const Catalogue*, std::less<>> all;
  return all;
}
}  // namespace

const Catalogue* find_catalogue(std::string_view interface_name) {
  const std::lock_guard lock(catalogue_mutex);
  const auto found = catalogues().find(interface_name);
  return found == catalogues().end() ? nullptr : found->second;
}

void set_catalogue(std::string_view interface_name, const Catalogue* catalogue) {
  const std::lock_guard lock(catalogue_mutex);
  catalogues()[std::string(interface_name)] = catalogue;
}

}  // namespace hone::config
