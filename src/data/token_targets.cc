// Labels of a store's tokens, as a data set numbers them.
#include "data/token_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "base/hash.h"
#include "base/strings.h"
#include "data/embedded_tokens.h"
#include "hone/error.h"

namespace hone::data {

std::vector<std::int64_t> token_targets(const TokenStore& store, const Targets& targets, const Piece& piece) {
  std::vector<std::int64_t> made(piece.length);
  store.copy_labels(piece.begin, piece.end(), made.data());
  for (std::int64_t& target : made)
    if (target != -100) target = targets.labels(static_cast<std::size_t>(target))[0];
  return made;
}

void put_types(const TokenStore& store, const Piece& piece, HostDoc& doc) {
  const std::uint32_t second = store.label(piece.doc).second;
  if (second >= piece.length) return;
  std::vector<std::int64_t>& types = doc.per_token["token_type_ids"];
  types.resize(piece.length);
  std::fill(types.begin() + second, types.end(), 1);
}

void put_score(const TokenStore& store, const Piece& piece, HostDoc& doc) {
  const std::string& label = store.label_names()[store.label(piece.doc).name];
  if (label.empty()) return;
  if (label.front() == kClassMark) {
    const std::span<const char> name = std::span(label).subspan(1);
    doc.per_document["class"] = static_cast<std::int64_t>(hash64(std::as_bytes(name)) | 1);  // 0: there is none
    return;
  }
  const std::optional<double> score = parse_double(label);
  if (!score) throw Error(ErrorKind::data, fmt::format("damaged token cache: {} is no score", hone::quoted(label)));
  doc.numbers["score"] = {*score, 1};
}

bool has_label(const TokenStore& store, std::int64_t doc, std::size_t name) {
  if (!store.is_tagged()) return store.label(doc).name == name;
  std::vector<std::int64_t> labels(store.end(doc) - store.begin(doc));
  store.copy_labels(store.begin(doc), store.end(doc), labels.data());
  return std::find(labels.begin(), labels.end(), static_cast<std::int64_t>(name)) != labels.end();
}

void check_token_labels(const std::vector<std::string>& texts, const std::string& paths) {
  const std::set<std::string> all(texts.begin(), texts.end());
  warn_of_alike_labels({all.begin(), all.end()}, paths);
  const auto is_number = [](const std::string& label) { return parse_int(label).has_value(); };
  const auto number = std::find_if(all.begin(), all.end(), is_number);
  const auto name = std::find_if_not(all.begin(), all.end(), is_number);
  if (number != all.end() && name != all.end())
    throw Error(ErrorKind::data, fmt::format("{}: mixed kinds of labels: {} and {}; expected names or whole numbers",
                                             paths, hone::quoted(*number), hone::quoted(*name)))
        .hint("whole numbers count the names that objective.labels says");
  if (all.size() != 1) return;  // where there are none is said elsewhere
  throw Error(ErrorKind::data, fmt::format("{}: all that has a label has the label {}; expected at least two labels",
                                           paths, hone::quoted(*all.begin())));
}

}  // namespace hone::data
