// Prompts with the answers of other records.
#include "objectives/mismatched.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "tensor/host.h"

namespace hone::objectives {
namespace {

struct Parts {
  std::vector<std::int64_t> prompt = {};
  AnswerTokens answer = {};
};

// The documents of a batch. A prompt ends with the token whose target is the first that is learnt.
std::vector<Parts> parts_of(const Batch& batch) {
  const Tensor all_ids = host::read(batch.ids_BT), all_targets = host::read(batch.labels_BT);
  std::vector<Parts> parts;
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto of = [&](const Tensor& values) {
      return host::values<std::int64_t>(values).subspan(begin, static_cast<std::size_t>(doc.end - doc.begin));
    };
    const auto ids = of(all_ids), targets = of(all_targets);
    const auto first = std::find_if(targets.begin(), targets.end(), [](std::int64_t target) { return target != -100; });
    const auto last_of_prompt = std::min(first - targets.begin(), std::ssize(ids) - 1);
    parts.push_back(
        {{ids.begin(), ids.begin() + last_of_prompt + 1},
         {{ids.begin() + last_of_prompt + 1, ids.end()}, {targets.begin() + last_of_prompt, targets.end()}}});
  }
  return parts;
}

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

AnswerTokens last_answer(const Batch& batch) { return parts_of(batch).back().answer; }

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
  std::vector<Parts> parts = parts_of(batch);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && batch.docs[i].group != batch.docs[i - 1].group) other = std::move(last);
    if (other) row.push_back(joined(parts[i].prompt, *other, std::ssize(row), static_cast<std::size_t>(most)));
    last = std::move(parts[i].answer);
  }
  if (row.empty()) return std::nullopt;
  return to_batch(pad({std::move(row)}, /*pad_id=*/0));
}

}  // namespace hone::objectives
