// Only after the last layer is it known whether something came in the place of what was taken away. A layer that sets
// such an option itself is answered for it by the recipe's checks, as anybody is.
#include "train/lost_evaluations.h"

#include <algorithm>

#include "base/strings.h"

namespace hone::training {
namespace {

using config::Mark;
using config::Node;

// What needs something to evaluate on.
constexpr const char* kOfEvaluations[] = {"trainer.eval_every",      "trainer.eval_every_epochs",
                                          "trainer.eval_at_start",   "trainer.eval_delay",
                                          "trainer.eval_batch_size", "trainer.max_eval_batches",
                                          "trainer.eval_sets",       "trainer.save.best_by",
                                          "trainer.save.after_evaluation"};

const Node* find_below(const Node& root, const std::string& path) {
  const Node* at = &root;
  for (const std::string& part : split(path, '.'))
    if (at) at = at->find(part);
  return at;
}

bool is_same(const Mark& a, const Mark& b) { return a.file == b.file && a.line == b.line; }

// Whether there is a set or a share; what cannot be read yet may be one.
bool is_evaluated(const Node& root) {
  const Node* const eval = find_below(root, "data.eval");
  if (!eval || eval->is_null()) return false;
  return !eval->is_map() || std::any_of(eval->entries().begin(), eval->entries().end(), [](const auto& entry) {
    return entry.first != "held_out" || (!entry.second.is_null() && parse_double(entry.second.text()) != 0.0);
  });
}

// The null that says so; null: there is none.
const Node* taken_away(const Node& root) {
  for (const char* path : {"data.eval", "data"})
    if (const Node* node = find_below(root, path); node && node->is_null()) return node;
  return nullptr;
}

// Where it says that there is none.
Mark mark_of_none(const Node& root) {
  for (const char* path : {"data.eval", "data"})
    if (const Node* node = find_below(root, path)) return node->mark();
  return {};
}

}  // namespace

void LostEvaluations::meet(const Node& root) {
  const Node *const now = taken_away(root), *const earlier = taken_away(before_);
  const bool says_so = now && !(earlier && is_same(now->mark(), earlier->mark()));
  if (!is_evaluated(root) && (says_so || is_evaluated(before_))) {
    taken_at_ = mark_of_none(root);
    for (const char* option : kOfEvaluations)
      if (const Node* node = find_below(before_, option)) options_[option] = node->mark();
  }
  before_ = root;
}

void LostEvaluations::drop(Node& root, config::Problems& problems) const {
  if (is_evaluated(root)) return;
  std::vector<std::string> dropped;
  for (const std::string option : kOfEvaluations) {
    const auto lost = options_.find(option);
    const Node* const node = find_below(root, option);
    if (lost == options_.end() || !node || !is_same(node->mark(), lost->second)) continue;
    const std::size_t dot = option.rfind('.');
    auto& entries = const_cast<Node*>(find_below(root, option.substr(0, dot)))->entries();
    std::erase_if(entries, [&](const auto& entry) { return entry.first == option.substr(dot + 1); });
    dropped.push_back(option);
  }
  const Node* const eval = find_below(root, "data.eval");
  const bool is_told = eval && eval->is_null();  // to evaluate no more: who says that needs no word about it
  if (!dropped.empty() && !is_told)
    problems.note("data.eval", "there is nothing to evaluate on, so this does not count: " + join(dropped, ", "),
                  taken_at_);
}

}  // namespace hone::training
