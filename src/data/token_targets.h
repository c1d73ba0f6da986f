// Labels of a store's tokens, as a data set numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/cut.h"
#include "data/labels.h"
#include "data/token_store.h"

namespace hone::data {

// Of each token of the piece its own, -100 where it has none. REQUIRES: store.is_tagged().
std::vector<std::int64_t> token_targets(const TokenStore& store, const Targets& targets, const Piece& piece);

// token_type_ids of a document of two texts, of which the second one has 1; of others nothing.
void put_types(const TokenStore& store, const Piece& piece, HostDoc& doc);

// What a text to embed or to rank has by its label (from_texts()): its score, or its class.
void put_score(const TokenStore& store, const Piece& piece, HostDoc& doc);

// Whether the document, or one of its tokens, has the label of this number among the store's.
bool has_label(const TokenStore& store, std::int64_t doc, std::size_t name);

// Throws Error(data) where labels that nobody has named are a single one, as there is nothing to learn, or are both
// names and whole numbers.
void check_token_labels(const std::vector<std::string>& texts, const std::string& paths);

}  // namespace hone::data
