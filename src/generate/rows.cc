#include "generate/rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tensor/host.h"
#include "tensor/pictures.h"
#include "text/tokenizer/language.h"

namespace hone::generate {

Batch rows_of_ids(const std::vector<std::span<const std::int32_t>>& rows, const RowPictures& pictures) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  Batch batch;
  batch.ids_BT = at::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)}, at::kLong);
  const auto ids = host::mutable_values<std::int64_t>(batch.ids_BT).begin();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), ids + r * longest);
    Doc doc;
    doc.row = static_cast<std::int32_t>(r);
    doc.end = static_cast<std::int32_t>(rows[r].size());
    batch.docs.push_back(doc);
    batch.tokens += doc.end;
  }
  HostPictures all;
  std::vector<PicturedDoc> docs;
  for (std::size_t r = 0; r < pictures.size(); ++r) docs.push_back({pictures[r], static_cast<std::int64_t>(r), 0});
  add_pictures(all, docs);
  batch.pictures = to_pictures(all);
  return batch;
}

Batch sources_with_starts(const std::vector<std::span<const std::int32_t>>& rows, std::int32_t start) {
  std::vector<std::vector<std::int32_t>> wider;
  for (const auto& row : rows) {
    wider.emplace_back(row.begin(), row.end());
    wider.back().push_back(start);
  }
  Batch batch = rows_of_ids({wider.begin(), wider.end()});
  std::vector<Doc> docs;
  for (Doc doc : batch.docs) {
    doc.group = doc.row, doc.role = Role::source, --doc.end;
    docs.push_back(doc);
    doc.begin = doc.end++, doc.role = Role::target;
    docs.push_back(doc);
  }
  batch.docs = std::move(docs);
  return batch;
}

std::vector<std::int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, /*special=*/true).ids;
  if (tokenizer.adds_eos && !ids.empty() && ids.back() == tokenizer.eos_id) ids.pop_back();
  if (ids.empty() && tokenizer.bos_id) ids.push_back(*tokenizer.bos_id);
  return ids;
}

std::vector<std::int32_t> source_ids(const Tokenizer& tokenizer, const std::string& text, const std::string& language) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, /*special=*/true).ids;
  if (!language.empty()) text::LanguageMark(tokenizer, language, "src_lang").put(ids);
  const bool has_end = !tokenizer.eos_id || (!ids.empty() && ids.back() == *tokenizer.eos_id);
  if (!has_end && !text::puts_eos(tokenizer)) ids.push_back(*tokenizer.eos_id);
  return ids;
}

}  // namespace hone::generate
