// hone generate --prompts: a file of prompts, in the formats of data files.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/place.h"

namespace hone::cli {

// Calls each(prompt, place) for every prompt in its order: a string, or an object with fields. What the file is goes by
// its name, as with data: JSON Lines, a JSON array, Parquet, CSV or TSV, of which a row is an object of its columns
// (prompt or text, and those beside it); else text, a prompt a line. A pipe without such a name, and standard input
// (-), go by their beginning. columns: other names of these columns, for whoever reads the objects by them, and says
// itself what is missing; a table may then have no line of names, or be read by numbers of columns, as data are. Throws
// Error(data) with the line.
void read_prompt_file(const std::string& path,
                      const std::function<void(const nlohmann::ordered_json&, const data::Place&)>& each,
                      const std::optional<std::map<std::string, std::string>>& columns = std::nullopt);

}  // namespace hone::cli
