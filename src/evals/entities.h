// Named entities in a row of labels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hone::evals {

// Tokens [begin, end) are one thing, of this type.
struct Entity {
  std::string type;
  std::size_t begin = 0, end = 0;
  bool operator==(const Entity&) const = default;
};

// Whether labels are those of a scheme: O, and B-x, I-x, E-x, S-x.
bool mark_entities(const std::vector<std::string>& labels);

// As seqeval's get_entities finds them, which is how conlleval does: what goes on with another type, or with nothing
// before it, begins something. REQUIRES: mark_entities(labels). labels: of a document's tokens, by number.
std::vector<Entity> entities_of(std::span<const std::int64_t> tokens, const std::vector<std::string>& labels);

}  // namespace hone::evals
