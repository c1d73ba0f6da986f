// Opens a data file with the source that reads its kind: told by its extension, else by its content.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hone/data.h"

namespace hone::io {
class ByteReader;
}

namespace hone::data {

inline constexpr std::string_view kKinds =
    "expected .jsonl, .json, .txt, .csv, .tsv or .parquet, also with .gz or .zst";

// Whether a file of this name is read for its name alone: a source's, also with .gz or .zst.
bool has_data_extension(const std::string& path);

// The name of the registered source for this file: "jsonl", "json", "text", "csv", "tsv", "parquet" or a plug-in's.
// .gz and .zst are looked through. A source's name is the extension it reads. Throws Error(data) for pickles, archives,
// folders, devices and other files that are no data. Of a pipe only the name is looked at; one that says nothing gives
// JSON Lines.
std::string kind_of(const std::string& path);
// As a file that is open begins, whatever its name: "jsonl", "json", "text" or "parquet". Throws as above.
std::string kind_by_content(io::ByteReader& opened);

// Whether this source cannot do without a file: one of hone's own.
bool is_file_format(const std::string& source);

// The named source, or the one for the file.
std::unique_ptr<Source> open_source(const SourceFile& file, const config::Choice<Source>& source = {});
// Source::next() of what was opened so; what one that is no format of hone's throws says which one it is.
bool next_of(Source& opened, const config::Choice<Source>& source, Record& record);

// What a source is told of an entry.
SourceFile source_file(const DataFile& file, RecordKind records, ProblemType problem_type, bool pictures = false);

}  // namespace hone::data
