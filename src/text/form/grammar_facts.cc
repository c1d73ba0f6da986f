// Each fact spreads from where it is plain to what leads there, over edges that were turned around: a node is looked at
// as often as edges leave it, whatever the order in which nodes were made.
#include "text/form/grammar_facts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "hone/error.h"

namespace hone::text {
namespace {

std::size_t slot(std::int32_t i) { return static_cast<std::size_t>(i); }

// Lists of numbers, one for each of some keys, in two blocks of memory.
class Lists {
 public:
  Lists(std::size_t keys, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs)
      : begins_(keys + 1), all_(pairs.size()) {
    for (const auto& [key, value] : pairs) ++begins_[slot(key) + 1];
    for (std::size_t k = 0; k < keys; ++k) begins_[k + 1] += begins_[k];
    std::vector<std::size_t> next = begins_;
    for (const auto& [key, value] : pairs) all_[next[slot(key)]++] = value;
  }
  std::span<const std::int32_t> of(std::int32_t key) const {
    return std::span(all_).subspan(begins_[slot(key)], begins_[slot(key) + 1] - begins_[slot(key)]);
  }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::int32_t> all_;
};

struct CallEdge {
  std::int32_t from, to, rule;
};

// Who leads to a node, and who calls a rule.
struct Turned {
  Turned(const Grammar& grammar, const std::array<bool, 256>* usable) {
    std::vector<std::pair<std::int32_t, std::int32_t>> by_empty, by_bytes, by_to, by_rule;
    for (std::size_t n = 0; n < grammar.nodes.size(); ++n) {
      const auto from = static_cast<std::int32_t>(n);
      for (const std::int32_t to : grammar.nodes[n].empty) by_empty.emplace_back(to, from);
      for (const Grammar::Bytes& edge : grammar.nodes[n].bytes)
        if (!usable || std::any_of(usable->begin() + edge.low, usable->begin() + edge.high + 1, std::identity()))
          by_bytes.emplace_back(edge.to, from);
      for (const Grammar::Call& call : grammar.nodes[n].calls) {
        by_to.emplace_back(call.to, static_cast<std::int32_t>(calls.size()));
        by_rule.emplace_back(call.rule, static_cast<std::int32_t>(calls.size()));
        calls.push_back({from, call.to, call.rule});
      }
    }
    const std::size_t nodes = grammar.nodes.size();
    empty.emplace(nodes, by_empty), bytes.emplace(nodes, by_bytes);
    calls_to.emplace(nodes, by_to), calls_of.emplace(grammar.rules.size(), by_rule);
    std::vector<std::pair<std::int32_t, std::int32_t>> by_entry;
    for (std::size_t r = 0; r < grammar.rules.size(); ++r)
      by_entry.emplace_back(grammar.rules[r].entry, static_cast<std::int32_t>(r));
    rules_of_entry.emplace(nodes, by_entry);
  }
  std::vector<CallEdge> calls;
  std::optional<Lists> empty, bytes, calls_to, calls_of, rules_of_entry;
};

// Nodes from which a rule's exit is reached by nothing; a rule is nullable where its entry is one.
void find_nullable(const Grammar& grammar, const Turned& turned, GrammarFacts& facts) {
  facts.nullable.assign(grammar.rules.size(), false);
  std::vector<bool> passes(grammar.nodes.size());
  std::vector<std::int32_t> waiting;
  const auto note = [&](std::int32_t node) {
    if (!passes[slot(node)]) passes[slot(node)] = true, waiting.push_back(node);
  };
  for (const Grammar::Rule& rule : grammar.rules) note(rule.exit);
  while (!waiting.empty()) {
    const std::int32_t at = waiting.back();
    waiting.pop_back();
    for (const std::int32_t from : turned.empty->of(at)) note(from);
    for (const std::int32_t which : turned.calls_to->of(at))
      if (facts.nullable[slot(turned.calls[slot(which)].rule)]) note(turned.calls[slot(which)].from);
    for (const std::int32_t rule : turned.rules_of_entry->of(at)) {
      facts.nullable[slot(rule)] = true;
      for (const std::int32_t which : turned.calls_of->of(rule))
        if (passes[slot(turned.calls[slot(which)].to)]) note(turned.calls[slot(which)].from);
    }
  }
}

// As Dijkstra's: lower heights first, so that each node's is found once.
void find_heights(const Grammar& grammar, const Turned& turned, std::int32_t deepest, GrammarFacts& facts) {
  std::vector<std::int32_t>& heights = facts.heights;
  heights.assign(grammar.nodes.size(), GrammarFacts::kNever);
  std::vector<std::vector<std::int32_t>> waiting(slot(deepest) + 1);
  std::int32_t now = 0;
  const auto note = [&](std::int32_t node, std::int32_t height) {
    if (height > deepest || height >= heights[slot(node)]) return;
    heights[slot(node)] = height, waiting[slot(height)].push_back(node);
  };
  const auto note_call = [&](const CallEdge& call) {
    const std::int32_t around = heights[slot(call.to)];
    if (facts.nullable[slot(call.rule)]) note(call.from, around);
    note(call.from, std::max(heights[slot(grammar.rules[slot(call.rule)].entry)] + 1, around));
  };
  for (const Grammar::Rule& rule : grammar.rules) note(rule.exit, 0);
  for (; now <= deepest; ++now)
    while (!waiting[slot(now)].empty()) {
      const std::int32_t at = waiting[slot(now)].back();
      waiting[slot(now)].pop_back();
      if (heights[slot(at)] < now) continue;
      for (const std::int32_t from : turned.empty->of(at)) note(from, now);
      for (const std::int32_t from : turned.bytes->of(at)) note(from, now);
      for (const std::int32_t which : turned.calls_to->of(at)) note_call(turned.calls[slot(which)]);
      for (const std::int32_t rule : turned.rules_of_entry->of(at))
        for (const std::int32_t which : turned.calls_of->of(rule)) note_call(turned.calls[slot(which)]);
    }
}

// The rules that each may begin with.
std::vector<std::set<std::int32_t>> beginnings(const Grammar& grammar, const GrammarFacts& facts) {
  std::vector<std::set<std::int32_t>> begins(grammar.rules.size());
  std::vector<std::int32_t> seen(grammar.nodes.size(), -1), waiting;
  for (std::size_t r = 0; r < grammar.rules.size(); ++r) {
    waiting.push_back(grammar.rules[r].entry);
    while (!waiting.empty()) {
      const std::int32_t at = waiting.back();
      waiting.pop_back();
      if (std::exchange(seen[slot(at)], static_cast<std::int32_t>(r)) == static_cast<std::int32_t>(r)) continue;
      const Grammar::Node& node = grammar.nodes[slot(at)];
      waiting.insert(waiting.end(), node.empty.begin(), node.empty.end());
      for (const Grammar::Call& call : node.calls) {
        begins[r].insert(call.rule);
        if (facts.nullable[slot(call.rule)]) waiting.push_back(call.to);
      }
    }
  }
  return begins;
}

void order_rules(const Grammar& grammar, GrammarFacts& facts) {
  const std::size_t count = grammar.rules.size();
  const std::vector<std::set<std::int32_t>> begins = beginnings(grammar, facts);
  std::vector<std::size_t> open(count);  // others that begin with it and are not placed yet
  for (const auto& of_rule : begins)
    for (const std::int32_t other : of_rule) ++open[slot(other)];
  std::vector<std::int32_t> ready;
  for (std::size_t r = 0; r < count; ++r)
    if (open[r] == 0) ready.push_back(static_cast<std::int32_t>(r));
  while (!ready.empty()) {
    const std::int32_t rule = ready.back();
    ready.pop_back();
    facts.order.push_back(rule);
    for (const std::int32_t other : begins[slot(rule)])
      if (--open[slot(other)] == 0) ready.push_back(other);
  }
  if (facts.order.size() < count)
    throw Error(ErrorKind::config, "form: a part refers to itself with nothing before; expected something to come "
                                   "first, as a bracket does");
  facts.turn.resize(count);
  for (std::size_t i = 0; i < count; ++i) facts.turn[slot(facts.order[i])] = static_cast<std::int32_t>(i);
}

}  // namespace

GrammarFacts facts_of(const Grammar& grammar, const std::array<bool, 256>* usable, std::int32_t deepest) {
  GrammarFacts facts;
  facts.is_exit.resize(grammar.nodes.size());
  for (const Grammar::Rule& rule : grammar.rules) facts.is_exit[slot(rule.exit)] = true;
  const Turned turned(grammar, usable);
  find_nullable(grammar, turned, facts);
  order_rules(grammar, facts);
  find_heights(grammar, turned, deepest, facts);
  return facts;
}

}  // namespace hone::text
