// Texts of other records beside a query's own.
#include "objectives/drawn_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "hone/data.h"
#include "hone/random.h"
#include "tensor/host.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/token_types.h"

namespace hone::objectives {
namespace {

using TextTokens = QueryTexts::Tokens;

constexpr std::string_view kStream = "texts of other records";

const text::JsonTokenizer& joining(const Tokenizer& tokenizer) {
  const auto* json = dynamic_cast<const text::JsonTokenizer*>(&tokenizer);
  if (!json)
    throw Error(ErrorKind::config, "this tokenizer has ids and offsets only, and puts no texts of several records "
                                   "together");
  return *json;
}

// What others' texts are to a query: none of its own, and right for nobody who asks the same.
std::vector<const TextTokens*> candidates_of(const QueryTexts& query, const std::vector<QueryTexts>& step) {
  std::set<TextTokens> not_wanted(query.texts.begin(), query.texts.end());
  for (const QueryTexts& other : step)
    if (other.query == query.query) not_wanted.insert(other.texts[0]);
  std::vector<const TextTokens*> all;
  for (const QueryTexts& other : step)
    for (const TextTokens& text : other.texts)
      if (!not_wanted.contains(text)) all.push_back(&text);
  return all;
}

std::vector<const TextTokens*> drawn_for(const QueryTexts& query, const std::vector<QueryTexts>& step,
                                     const Drawing& drawing) {
  const std::vector<const TextTokens*> all = candidates_of(query, step);
  const std::int64_t most = drawing.most.value_or(std::ssize(all));
  if (most >= std::ssize(all)) return all;
  const Random random(drawing.seed, fmt::format("{}/{}/{}", kStream, drawing.when, query.record));
  std::vector<const TextTokens*> drawn;
  for (std::int64_t i = 0; i < most; ++i)
    drawn.push_back(all[random.permuted(static_cast<std::uint64_t>(i), all.size())]);
  return drawn;
}

HostDoc pair_of(const QueryTexts& query, const TextTokens& text, Role role, const Drawing& drawing) {
  const FittedEncoding made = joining(drawing.tokenizer)
                                  .join_fitting(query.query, text, static_cast<std::size_t>(drawing.max_length),
                                                /*from_left=*/false);
  HostDoc doc;
  doc.ids.assign(made.ids.begin(), made.ids.end());
  doc.targets.assign(made.ids.size(), -100);
  doc.record = query.record, doc.role = role, doc.group = 0;
  const bool typed = std::ranges::any_of(made.type_ids, [](auto type) { return type != 0; });
  if (typed && text::gives_token_types(drawing.tokenizer))
    doc.per_token["token_type_ids"].assign(made.type_ids.begin(), made.type_ids.end());
  return doc;
}

}  // namespace

std::vector<QueryTexts> texts_of_records(const Batch& batch) {
  const auto ids = host::values<std::int64_t>(batch.ids_BT);
  std::map<std::int32_t, QueryTexts> of_group;
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto part = ids.subspan(begin, static_cast<std::size_t>(doc.end - doc.begin));
    QueryTexts& made = of_group[doc.group];
    made.record = doc.record;
    if (doc.role == Role::query) made.query.assign(part.begin(), part.end());
    else made.texts.emplace_back(part.begin(), part.end());
  }
  std::vector<QueryTexts> all;
  for (auto& [group, texts] : of_group) all.push_back(std::move(texts));
  return all;
}

std::vector<QueryTexts> all_of_step(const std::vector<QueryTexts>& own, const World& world) {
  nlohmann::json told = nlohmann::json::array();
  for (const QueryTexts& one : own) told.push_back({one.record, one.query, one.texts});
  std::vector<QueryTexts> all;
  for (const std::string& rank : world.gather(told.dump()))
    for (const nlohmann::json& one : nlohmann::json::parse(rank))
      all.push_back({one[0].get<std::int64_t>(), one[1].get<TextTokens>(), one[2].get<std::vector<TextTokens>>()});
  std::ranges::sort(all, {}, [](const QueryTexts& one) { return std::tie(one.record, one.query, one.texts); });
  return all;
}

Batch with_drawn_texts(const std::vector<QueryTexts>& queries, const std::vector<QueryTexts>& step,
                       const Drawing& drawing) {
  std::vector<HostRow> rows;
  for (const QueryTexts& query : queries) {
    HostRow& row = rows.emplace_back();
    row.push_back(pair_of(query, query.texts[0], Role::chosen, drawing));
    for (const TextTokens* text : drawn_for(query, step, drawing))
      row.push_back(pair_of(query, *text, Role::rejected, drawing));
    for (std::size_t i = 1; i < query.texts.size(); ++i)
      row.push_back(pair_of(query, query.texts[i], Role::rejected, drawing));
  }
  return to_batch(pad(rows, 0));  // nothing is computed of padding
}

}  // namespace hone::objectives
