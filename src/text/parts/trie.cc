// Building the arrays: each node's children are laid at the first place where all of them fit.
#include "text/parts/trie.h"

#include <algorithm>

namespace hone::text {

struct Trie::Builder {
  struct Range {
    std::uint32_t node, first, last, depth;  // keys [first, last) go through the node
  };
  std::vector<Unit>& units;
  const std::vector<std::pair<std::string_view, std::int32_t>>& keys;
  std::uint32_t start = 1;  // before it (almost) everything is taken

  // A base at which every label falls on a free unit.
  std::uint32_t place(const std::vector<unsigned char>& labels) {
    std::uint32_t tried = 0, taken = 0;
    for (std::uint32_t at = std::max<std::uint32_t>(start, labels[0] + 1u);; ++at) {
      const std::uint32_t base = at - labels[0];
      if (units.size() < base + 257u) units.resize(std::max<std::size_t>(base + 257u, units.size() * 3 / 2));
      ++tried;
      if (units[at].parent != 0) {
        ++taken;
        continue;
      }
      if (std::any_of(labels.begin(), labels.end(), [&](unsigned char l) { return units[base + l].parent != 0; }))
        continue;
      if (tried > 64 && taken * 20 > tried * 19) start = at;  // crowded: later nodes begin to look here
      return base;
    }
  }

  void run() {
    std::vector<Range> open = {{0, 0, static_cast<std::uint32_t>(keys.size()), 0}};
    std::vector<unsigned char> labels;
    while (!open.empty()) {
      Range r = open.back();
      open.pop_back();
      for (; r.first < r.last && keys[r.first].first.size() == r.depth; ++r.first)
        if (r.depth > 0) units[r.node].value = keys[r.first].second;
      if (r.first == r.last) continue;
      labels.clear();
      const auto label = [&](std::uint32_t i) { return static_cast<unsigned char>(keys[i].first[r.depth]); };
      for (std::uint32_t i = r.first; i < r.last; ++i)
        if (labels.empty() || labels.back() != label(i)) labels.push_back(label(i));
      const std::uint32_t base = place(labels);
      units[r.node].base = base;
      for (const unsigned char l : labels) units[base + l].parent = r.node + 1;
      for (std::uint32_t i = r.first; i < r.last;) {
        const std::uint32_t begin = i;
        while (i < r.last && label(i) == label(begin)) ++i;
        open.push_back({base + label(begin), begin, i, r.depth + 1});
      }
    }
  }
};

Trie::Trie(std::vector<std::pair<std::string_view, std::int32_t>> keys) : units_(257) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Builder{units_, keys}.run();
  units_.shrink_to_fit();
}

}  // namespace hone::text
