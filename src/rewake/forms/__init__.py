# SPDX-License-Identifier: GPL-2.0-or-later
"""The forms that pass between rooms: the recording and the run, declared once, with their reader and writer.

Rooms import this package and none of its modules.
"""

from rewake.forms.fleet import FleetStore as FleetStore
from rewake.forms.manifest import kernel_version as kernel_version
from rewake.forms.parquet import Array as Array
from rewake.forms.parquet import Columns as Columns
from rewake.forms.parquet import confine as confine
from rewake.forms.parquet import connect as connect
from rewake.forms.parquet import dtype_of as dtype_of
from rewake.forms.parquet import empty as empty
from rewake.forms.parquet import sparingly as sparingly
from rewake.forms.parquet import unreadable as unreadable
from rewake.forms.parquet import values_of as values_of
from rewake.forms.parquet import with_null as with_null
from rewake.forms.recording import Recording as Recording
from rewake.forms.recording import RecordingWriter as RecordingWriter
from rewake.forms.run import Run as Run
from rewake.forms.run import RunWriter as RunWriter
from rewake.forms.run import in_memory as in_memory
from rewake.forms.store import Store as Store
from rewake.forms.tables import BATCH_EVENTS as BATCH_EVENTS
from rewake.forms.tables import DECISION as DECISION
from rewake.forms.tables import ENUMS as ENUMS
from rewake.forms.tables import EVENT_TABLES as EVENT_TABLES
from rewake.forms.tables import FAIR_CLASSES as FAIR_CLASSES
from rewake.forms.tables import FLEET_TABLES as FLEET_TABLES
from rewake.forms.tables import INPUTS as INPUTS
from rewake.forms.tables import MACHINE_TABLES as MACHINE_TABLES
from rewake.forms.tables import NOT_RECORDED as NOT_RECORDED
from rewake.forms.tables import OUTCOMES as OUTCOMES
from rewake.forms.tables import RECORDING_TABLES as RECORDING_TABLES
from rewake.forms.tables import RUN_TABLES as RUN_TABLES
from rewake.forms.tables import SCHEMA_VERSION as SCHEMA_VERSION
from rewake.forms.tables import STORE_TABLES as STORE_TABLES
from rewake.forms.tables import TABLES as TABLES
from rewake.forms.tables import TASK_TABLES as TASK_TABLES
from rewake.forms.tables import TRUE as TRUE
from rewake.forms.tables import Column as Column
from rewake.forms.tables import Table as Table
