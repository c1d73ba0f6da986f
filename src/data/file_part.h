// A file of a data set.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/cache.h"
#include "data/cut.h"
#include "data/indexed_line.h"
#include "data/token_targets.h"
#include "hone/data.h"

namespace hone::data {

// One file: its tokens, the documents of it that belong to this data set, and their rows.
struct FilePart {
  DataFile file;
  CachedTokens tokens;
  std::int64_t first_record = 0;  // of all files' documents
  std::vector<Stretch> stretches = {};
  RowTable rows = {};
  std::int64_t first_row = 0, repeated = 0;  // repeated: stretches that were left out
  Targets targets = {};  // of its labels in the data set
  std::function<std::string(std::int64_t record)> names =
      {};  // of a stream's window, whose store has records for lines
  std::int64_t record_of(std::int64_t doc) const { return names ? tokens.store->line(doc) : first_record + doc; }
  std::string name_of(std::int64_t doc) const {
    return names ? names(record_of(doc)) : fmt::format("{}:{}", file.path, line_words(tokens.store->line(doc)));
  }
  // One for each record: of a group all its documents.
  void add_stretches() {
    const TokenStore& store = *tokens.store;
    for (std::int64_t doc = 0, end = 0; doc < store.docs(); doc = end) {
      end = store.group_end(doc);
      stretches.push_back({store.begin(doc), store.end(end - 1), doc});
    }
  }
  // Whether the file is one document of text, as a .txt file is.
  bool single_text() const {
    return stretches.size() == 1 && tokens.store->counts().records == 1 && tokens.store->counts().not_text == 0 &&
           !tokens.store->has_pictures(0, tokens.store->size());
  }
};

}  // namespace hone::data
