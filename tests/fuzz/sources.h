// Data files of one kind, read to their end.
#pragma once

#include "data/source.h"
#include "fuzz/fuzz.h"

namespace hone::fuzz {

inline void read_all(const std::string& name, std::string_view content) {
  const auto source = data::open_source({file_of(name, content), {}, std::nullopt});
  std::int64_t line = 0;
  for (Record record; source->next(record);) {
    require(record.line >= line, "records come in the file's order");
    line = record.line;
  }
}

}  // namespace hone::fuzz
