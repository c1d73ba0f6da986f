// A request that is answered by an error.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace hone::serve {

// A request that gets an error, in the API's form.
class Refused : public std::exception {
 public:
  Refused(int status, std::string message, std::string param = "", std::string code = "")
      : status(status), message(std::move(message)), param(std::move(param)), code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }
  int status;
  std::string message, param, code;  // param: the field that it is about; "": none
};

}  // namespace hone::serve
