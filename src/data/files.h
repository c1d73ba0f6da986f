// What a data file's path stands for: the file, the files of a folder, or those that fit a pattern.
#pragma once

#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::data {

bool is_standard_input(const std::string& path);
bool is_read_once(const std::string& path);  // that, or a pipe: what it gives is gone

struct FoundFiles {
  std::vector<DataFile> files;      // each with the entry's options
  std::vector<std::string> others;  // names in a folder that are not read
};

// A file is itself, also where its name has the signs of a pattern. A folder stands for the files in it whose extension
// is that of data, in order of their names, without hidden ones and without folders below it; a pattern (* ? [a-z]
// {a,b}) for the files that fit it; an entry without a path whose source is named for that source. max_samples is left
// to the caller, who knows how many records were read. Throws Error(data) where there is nothing, for devices and, but
// for streams, for standard input and pipes.
FoundFiles files_of(const DataFile& entry, bool as_stream = false);

// Says what an entry stands for, if it is not simply a file.
void log_found(const DataFile& entry, const FoundFiles& found);

}  // namespace hone::data
