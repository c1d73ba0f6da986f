// Sets of (node, frame) as in Tomita's and Earley's parsers: at each place of a text a rule has one frame, which all of
// its callers share, so that no pattern makes more of them than there are places and rules.
#include "text/form/automaton.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace hone::text {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
std::uint32_t serial(const std::shared_ptr<const Frame>& frame) { return frame ? frame->serial : 0; }
std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

}  // namespace

// All places that empty edges, ends and beginnings of rules lead to from some.
class Automaton::Closure {
 public:
  explicit Closure(Automaton& of) : of_(of), turn_(++of.closures_) {}

  void add(std::int32_t node, const std::shared_ptr<const Frame>& frame) {
    waiting_.push_back({node, frame});
    while (!waiting_.empty()) {
      const Place place = std::move(waiting_.back());
      waiting_.pop_back();
      visit(place);
    }
  }
  // Once all were added. Frames of rules that others begin with are made when these are known.
  void enter_rules() {
    ends_rules_ = false;
    while (!callers_.empty()) {
      auto next = callers_.extract(callers_.begin());
      const std::int32_t rule = of_.facts_.order[index(next.key())];
      add(of_.grammar_.rules[index(rule)].entry, of_.frame_of(std::move(next.mapped())));
    }
  }
  std::vector<Place> places;
  bool may_end = false;

 private:
  void visit(const Place& place) {
    const std::int32_t depth = place.frame ? place.frame->depth : 0;
    if (!of_.lives(place.node, depth) || !is_new(place)) return;
    of_.spend(1);
    const Grammar::Node& node = of_.grammar_.nodes[index(place.node)];
    if (of_.facts_.is_exit[index(place.node)] && ends_rules_) end_rule(place);
    if (!node.bytes.empty()) places.push_back(place);
    for (const std::int32_t to : node.empty) waiting_.push_back({to, place.frame});
    for (const Grammar::Call& call : node.calls) {
      if (of_.facts_.nullable[index(call.rule)]) waiting_.push_back({call.to, place.frame});
      if (!of_.lives(of_.grammar_.rules[index(call.rule)].entry, depth + 1) || !of_.lives(call.to, depth)) continue;
      callers_[of_.facts_.turn[index(call.rule)]].push_back({call.to, place.frame});
    }
  }
  // Most places of patterns are of the whole text: those are noted by their nodes.
  bool is_new(const Place& place) {
    if (!place.frame) return std::exchange(of_.seen_[index(place.node)], turn_) != turn_;
    return seen_.insert(std::uint64_t{serial(place.frame)} << 32 | static_cast<std::uint32_t>(place.node)).second;
  }
  void end_rule(const Place& place) {
    if (!place.frame) {
      may_end = true;
      return;
    }
    of_.spend(place.frame->ways.size());
    for (const Frame::Way& way : place.frame->ways) waiting_.push_back({way.to, way.behind});
  }

  Automaton& of_;
  std::map<std::int32_t, std::vector<Frame::Way>> callers_;  // of rules, by their turn
  std::vector<Place> waiting_;
  std::uint64_t turn_;
  std::unordered_set<std::uint64_t> seen_;
  bool ends_rules_ = true;  // a rule without any text is passed by where it is called
};

Automaton::Automaton(Grammar grammar, const std::array<bool, 256>* usable)
    : grammar_(std::move(grammar)), facts_(facts_of(grammar_, usable, kMostDepth)), seen_(grammar_.nodes.size()) {
  classify_bytes();
  const std::int32_t entry = grammar_.rules[0].entry;
  Closure closure(*this);
  closure.add(entry, nullptr);
  closure.enter_rules();
  // The whole text may be empty: its rule is called by nobody.
  start_ = state_of(std::move(closure.places), closure.may_end);
}

// Bytes that no edge tells apart share the memory of their steps.
void Automaton::classify_bytes() {
  std::array<bool, 257> cut = {};
  for (const Grammar::Node& node : grammar_.nodes)
    for (const Grammar::Bytes& edge : node.bytes) cut[edge.low] = cut[edge.high + 1u] = true;
  std::uint16_t now = 0;
  for (std::size_t b = 0; b < 256; ++b) class_of_[b] = b > 0 && cut[b] ? ++now : now;
  classes_ = now + 1u;
}

std::shared_ptr<const Frame> Automaton::frame_of(std::vector<Frame::Way> ways) {
  const auto key = [](const Frame::Way& way) { return std::pair{way.to, serial(way.behind)}; };
  std::ranges::sort(ways, {}, key);
  const auto rest = std::ranges::unique(ways, {}, key);
  ways.erase(rest.begin(), rest.end());
  std::uint64_t hash = ways.size();
  for (const Frame::Way& way : ways) hash = mixed(mixed(hash, static_cast<std::uint64_t>(way.to)), serial(way.behind));
  const auto [first, last] = frames_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (std::ranges::equal(it->second->ways, ways, {}, key, key)) return it->second;
  auto made = std::make_shared<Frame>();
  made->serial = ++serials_;
  for (const Frame::Way& way : ways) made->depth = std::max(made->depth, way.behind ? way.behind->depth : 0);
  ++made->depth;
  weight_ += 4 + ways.size();
  made->ways = std::move(ways);
  frames_.emplace(hash, made);
  return made;
}

std::shared_ptr<FormState> Automaton::state_of(std::vector<Place> places, bool may_end) {
  const auto key = [](const Place& place) { return std::pair{place.node, serial(place.frame)}; };
  std::ranges::sort(places, {}, key);
  std::uint64_t hash = may_end;
  for (const Place& place : places)
    hash = mixed(mixed(hash, static_cast<std::uint64_t>(place.node)), serial(place.frame));
  const auto [first, last] = states_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->may_end_ == may_end && std::ranges::equal(it->second->places_, places, {}, key, key))
      return it->second;
  spend(kWorkOfState);
  auto made = std::make_shared<FormState>();
  weight_ += 8 + places.size() + classes_ / 2;
  made->places_ = std::move(places);
  made->may_end_ = may_end;
  states_.emplace(hash, made);
  return made;
}

std::shared_ptr<FormState> Automaton::closed(std::vector<Place> kernel) {
  Closure closure(*this);
  for (Place& place : kernel) closure.add(place.node, place.frame);
  closure.enter_rules();
  if (closure.places.empty() && !closure.may_end) return nullptr;
  return state_of(std::move(closure.places), closure.may_end);
}

FormState* Automaton::step(FormState& from, std::uint8_t byte) {
  if (from.generation_ != generation_) {
    from.next_.assign(classes_, &unknown_);
    from.generation_ = generation_;
  }
  const std::uint16_t which = class_of_[byte];
  if (from.next_[which] != &unknown_) return from.next_[which];
  std::vector<Place> kernel;
  for (const Place& place : from.places_) {
    const std::vector<Grammar::Bytes>& edges = grammar_.nodes[index(place.node)].bytes;
    spend(1 + edges.size() / 16);
    for (const Grammar::Bytes& edge : edges)
      if (edge.low <= byte && byte <= edge.high) kernel.push_back({edge.to, place.frame});
  }
  return from.next_[which] = kernel.empty() ? nullptr : closed(std::move(kernel)).get();
}

// States and frames that somebody holds stay as they are.
void Automaton::forget() {
  states_.clear();
  frames_.clear();
  weight_ = 0;
  ++generation_;
}

bool Automaton::accepts(std::string_view text) {
  std::shared_ptr<FormState> at = start_;
  for (const char c : text) {
    if (is_full()) forget();
    FormState* next = step(*at, static_cast<std::uint8_t>(c));
    if (!next) return false;
    at = next->shared_from_this();
  }
  return at->may_end();
}

}  // namespace hone::text
