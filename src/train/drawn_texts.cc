// Queries that are read with texts of other records, before there are any.
#include "train/drawn_texts.h"

#include <algorithm>
#include <map>
#include <vector>

namespace hone::training {

DrawnTokens drawn_tokens(const DrawnTexts& drawing, const Recipe& recipe, double texts, double length) {
  const double others = texts * static_cast<double>(recipe.trainer.rows_per_step() - 1);
  const double drawn = drawing.most ? std::min(static_cast<double>(*drawing.most), others) : others;
  const double pair = std::min(static_cast<double>(drawing.max_length.value_or(recipe.data.max_length)), 2 * length);
  return {(texts + drawn) * pair, pair};
}

HostBatch with_drawn_texts(HostBatch asked, const Needs& needs, const Recipe& recipe, std::int64_t step_rows) {
  if (!needs.draws_texts || asked.rows == 0) return asked;
  const DrawnTexts& drawing = *needs.draws_texts;
  const std::int64_t max_length = drawing.max_length.value_or(recipe.data.max_length);
  std::map<std::int64_t, std::vector<std::int64_t>> lengths;  // row -> the query's, and its texts'
  std::int64_t texts = 0, longest = 0;
  for (const Doc& doc : asked.docs) {
    lengths[doc.row].push_back(doc.end - doc.begin);
    if (doc.role != Role::query) ++texts, longest = std::max<std::int64_t>(longest, doc.end - doc.begin);
  }
  texts = texts * step_rows / asked.rows;
  std::vector<HostRow> rows;
  for (auto& [number, own] : lengths) {
    const std::int64_t others = std::max<std::int64_t>(0, texts - std::ssize(own) + 1);
    own.insert(own.end(), static_cast<std::size_t>(std::min(drawing.most.value_or(others), others)), longest);
    HostRow& row = rows.emplace_back();
    for (std::size_t i = 1; i < own.size(); ++i) {
      const auto tokens = static_cast<std::size_t>(std::min(max_length, own[0] + own[i]));
      HostDoc& doc = row.emplace_back();
      doc.ids.resize(tokens), doc.targets.assign(tokens, -100);
      doc.role = i == 1 ? Role::chosen : Role::rejected, doc.group = 0;
    }
  }
  return pad(rows, 0);
}

}  // namespace hone::training
