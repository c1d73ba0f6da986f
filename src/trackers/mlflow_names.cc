// URIs, names and the small YAML of MLflow's folders.
#include "trackers/mlflow_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::trackers {
namespace {

constexpr std::size_t kMaxMlflowName = 250, kMaxParameter = 6000;  // bytes; MLflow counts characters

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }  // of a code point

// The length of "http" in "http://host"; 0: the text has no scheme. "C" is one as well, which is no matter here.
std::size_t scheme_length(const std::string& uri) {
  const std::size_t colon = uri.find(':');
  if (colon == uri.npos || colon == 0) return 0;
  const bool named = std::all_of(uri.begin(), uri.begin() + static_cast<std::ptrdiff_t>(colon),
                                 [](char c) { return is_letter_or_digit(c) || c == '+' || c == '-' || c == '.'; });
  return named ? colon : 0;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const std::string digits(text.substr(i + 1, 2));
    if (digits.size() < 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) return std::nullopt;
    plain += static_cast<char>(std::stoi(digits, nullptr, 16));
    i += 2;
  }
  return plain;
}

// A section that can be one of several things and is none of them, as an adapter that there is none of: its options say
// nothing of the run.
bool is_none(const config::Node& section) {
  const config::Node* const type = section.find("type");
  return type && type->kind() == config::Node::Kind::scalar && type->text().empty();
}

void add_parameters(const config::Node& node, const std::string& path, std::map<std::string, std::string>& all) {
  const auto below = [&](const std::string& name) { return path.empty() ? name : path + "." + name; };
  if (node.kind() == config::Node::Kind::map && !node.entries().empty()) {
    for (const auto& [name, entry] : node.entries())
      if (!is_none(node) || name == "type") add_parameters(entry, below(name), all);
  } else if (node.kind() == config::Node::Kind::list && !node.items().empty()) {
    for (std::size_t i = 0; i < node.items().size(); ++i)
      add_parameters(node.items()[i], below(fmt::format("{}", i)), all);
  } else {
    const bool is_text = node.kind() == config::Node::Kind::scalar;
    all[mlflow_name(path)] = cut_to_bytes(with_replaced_utf8(is_text ? node.text() : to_json(node, -1)), kMaxParameter);
  }
}

}  // namespace

std::optional<std::filesystem::path> folder_of_uri(const std::string& uri) {
  const std::size_t scheme = scheme_length(uri);
  if (uri.empty() || uri == "databricks" || uri == "uc") return std::nullopt;  // words that MLflow takes for servers
  if (scheme == 0) return uri;
  if (uri.substr(0, scheme) != "file") return std::nullopt;
  std::string path = uri.substr(scheme + 1);
  if (path.starts_with("//")) {
    path = path.substr(2);
    if (path.starts_with("localhost/")) path = path.substr(9);
    if (!path.starts_with("/")) return std::nullopt;  // another machine's
  }
  const auto plain = decoded(path);
  return plain && !plain->empty() ? std::optional<std::filesystem::path>(*plain) : std::nullopt;
}

std::string file_uri(const std::filesystem::path& absolute) {
  std::string uri = "file://";
  for (const char c : absolute.string())
    uri += is_letter_or_digit(c) || std::string_view("/_-.~").find(c) != std::string_view::npos
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

std::string cut_to_bytes(std::string_view text, std::size_t most) {
  std::size_t end = std::min(most, text.size());
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  return std::string(text.substr(0, end));
}

std::string mlflow_name(const std::string& name) {
  std::string plain;
  for (const char c : with_replaced_utf8(name))
    if (!is_continuation(c))
      plain += is_letter_or_digit(c) || std::string_view("_-. :/").find(c) != std::string_view::npos ? c : '_';
  std::vector<std::string> parts = split(plain.substr(0, kMaxMlflowName), '/');
  for (std::string& part : parts)
    if (part.empty() || part == "." || part == "..") part = std::string(std::max<std::size_t>(1, part.size()), '_');
  return join(parts, "/").substr(0, kMaxMlflowName);
}

bool is_mlflow_id(std::string_view id) {
  return !id.empty() && id.size() <= 256 && is_letter_or_digit(id[0]) &&
         std::ranges::all_of(id, [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; });
}

std::string meta_string(std::string_view text) { return nlohmann::json(with_replaced_utf8(text)).dump(); }

std::string meta_text(const std::map<std::string, std::string>& entries) {
  std::string text;
  for (const auto& [name, value] : entries) text += fmt::format("{}: {}\n", name, value);
  return text;
}

std::string with_entry(const std::string& meta, const std::string& name, const std::string& value) {
  std::string text;
  bool is_here = false, is_done = false;
  for (const std::string& line : split(meta.substr(0, meta.find_last_not_of('\n') + 1), '\n')) {
    const bool goes_on = line.starts_with(" ") || line.empty();
    if (!goes_on) is_here = line.starts_with(name + ":");
    if (is_here && !goes_on) text += fmt::format("{}: {}\n", name, value);
    if (!is_here && !(line.empty() && text.empty())) text += line + "\n";
    is_done |= is_here;
  }
  return is_done ? text : text + fmt::format("{}: {}\n", name, value);
}

std::optional<std::string> entry_of(const std::string& meta, const std::string& name) {
  Problems problems;
  const config::Node all = config::parse_yaml(meta, "meta.yaml", problems);
  const config::Node* entry = all.is_map() ? all.find(name) : nullptr;
  if (!problems.empty() || entry == nullptr || entry->kind() != config::Node::Kind::scalar) return std::nullopt;
  return entry->text();
}

std::map<std::string, std::string> parameters_of(const std::string& recipe_yaml) {
  Problems problems;
  std::map<std::string, std::string> all;
  add_parameters(config::parse_yaml(recipe_yaml, "recipe", problems), "", all);
  return all;
}

}  // namespace hone::trackers
