// Names of fields that no record has.
#include "data/unmet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "data/form.h"
#include "data/source.h"
#include "data/templates.h"

namespace hone::data {

Unmet::Unmet(const std::vector<std::string>& ignore, const std::map<std::string, std::string>& columns) {
  for (const std::string& field : ignore) left_.push_back({field});
  for (const auto& [known, field] : columns)
    if (const ColumnTemplates made(std::map<std::string, std::string>{{known, field}}); !made.empty()) {
      for (const std::string& read : made.variables()) left_.push_back({read, known});
    } else if (is_optional_column(known)) {
      left_.push_back({field, known});
    }
}

Unmet Unmet::of(const DataFile& file) {
  return file.source.type.empty() || is_file_format(file.source.type) ? Unmet(file.ignore, file.columns) : Unmet();
}

void Unmet::meet(const std::vector<std::string>& unread, const std::vector<std::string>& renamed) {
  std::erase_if(left_, [&](const Name& name) { return has(name.known.empty() ? unread : renamed, name.field); });
}

void Unmet::tell(const std::string& where) {
  for (const Name& name : std::exchange(left_, {}))
    if (name.known.empty())
      log::warning("{}: ignore: no record has a field {} to pass over", where, hone::quoted(name.field));
    else
      log::warning("{}: columns: no record has a field {} to read {} from", where, hone::quoted(name.field),
                   name.known);
}

}  // namespace hone::data
