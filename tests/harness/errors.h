// EXPECT_HONE_ERROR: a statement throws hone::Error of a kind, and its text contains what the user must be told.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hone/error.h"

#define EXPECT_HONE_ERROR(statement, error_kind, part)                                                     \
  do {                                                                                                     \
    try {                                                                                                  \
      statement;                                                                                           \
      ADD_FAILURE() << "no error; expected one that says \"" << (part) << '"';                             \
    } catch (const ::hone::Error& hone_error) {                                                            \
      EXPECT_EQ(static_cast<int>(hone_error.kind()), static_cast<int>(::hone::ErrorKind::error_kind))      \
          << hone_error.what();                                                                            \
      EXPECT_THAT(std::string(hone_error.what()), ::testing::HasSubstr(part));                             \
    }                                                                                                      \
  } while (false)
