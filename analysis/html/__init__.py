# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as one HTML file: no request, no foreign script, light and dark, on paper too."""

from rewake.analysis.html.figures import Figures as Figures
from rewake.analysis.html.figures import gather as gather
from rewake.analysis.html.fleet import facet_page as facet_page
from rewake.analysis.html.fleet import fleet_page as fleet_page
from rewake.analysis.html.fleet import studies_page as studies_page
from rewake.analysis.html.page import page as page
from rewake.analysis.html.simulated import gather_simulated as gather_simulated
from rewake.analysis.html.simulated import simulated_page as simulated_page
from rewake.analysis.html.template import bundle as bundle
from rewake.analysis.html.template import bundle_version as bundle_version
