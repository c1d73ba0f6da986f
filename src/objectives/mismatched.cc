// Prompts with the answers of other records.
#include "objectives/mismatched.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace hone::objectives {
namespace {

HostDoc joined(const std::vector<std::int64_t>& prompt, const AnswerTokens& answer, std::int64_t group,
               std::size_t most) {
  HostDoc doc;
  doc.group = group;
  doc.ids = prompt;
  doc.ids.insert(doc.ids.end(), answer.ids.begin(), answer.ids.end());
  doc.targets.assign(prompt.size() - 1, -100);
  doc.targets.insert(doc.targets.end(), answer.targets.begin(), answer.targets.end());
  doc.ids.resize(std::min(doc.ids.size(), most));
  doc.targets.resize(doc.ids.size());
  return doc;
}

}  // namespace

AnswerTokens last_answer(const Batch& batch) { return PartedDocuments(batch).of(batch.docs.size() - 1).answer; }

std::string to_text(const std::vector<AnswerTokens>& answers) {
  nlohmann::json all = nlohmann::json::array();
  for (const AnswerTokens& one : answers) all.push_back({one.ids, one.targets});
  return all.dump();
}

std::vector<AnswerTokens> answers_of_text(const std::string& text) {
  std::vector<AnswerTokens> all;
  for (const nlohmann::json& one : nlohmann::json::parse(text)) all.push_back({one.at(0), one.at(1)});
  return all;
}

bool has_several_groups(const Batch& batch) {
  return std::any_of(batch.docs.begin(), batch.docs.end(),
                     [&](const Doc& doc) { return doc.group != batch.docs.front().group; });
}

std::optional<Batch> mismatched(const Batch& batch, const std::optional<AnswerTokens>& before, std::int64_t most) {
  HostRow row;
  std::optional<AnswerTokens> other = before, last;  // of the group before this one; of this one so far
  const PartedDocuments documents(batch);
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    DocumentParts parts = documents.of(i);
    if (i > 0 && batch.docs[i].group != batch.docs[i - 1].group) other = std::move(last);
    if (other) row.push_back(joined(parts.prompt, *other, std::ssize(row), static_cast<std::size_t>(most)));
    last = std::move(parts.answer);
  }
  if (row.empty()) return std::nullopt;
  return to_batch(pad({std::move(row)}, /*pad_id=*/0));
}

}  // namespace hone::objectives
